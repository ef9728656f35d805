// Arguments that a program reads and writes: in place where memory allows, else by copies.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device_test.h"
#include "fake_control.h"
#include "run/call.h"

namespace torch_pjrt::run {
namespace {

using Kind = Argument::Kind;
using pjrt::HostArray;
using pjrt::kVector;
using pjrt::kVectorBytes;

constexpr int64_t kBytes = static_cast<int64_t>(kVectorBytes);

// (a, b) -> b' in b's memory, of which the fake plugin makes nothing.
const std::string kUpdate =
    pjrt::module_text("%a: tensor<16xf32>, %b: tensor<16xf32> {tf.aliasing_output = 0 : i32}",
                      "tensor<16xf32>", "return %b : tensor<16xf32>");

class MutationTest : public testing::Test {
 protected:
  MutationTest() : control_(FAKE_PLUGIN), client_(shared_client()), before_(control_.all_live()) {
    control_.reset();
  }

  static const pjrt::Client& shared_client() {
    static const auto client = [] {
      auto made = pjrt::Client::create(pjrt::Plugin::load(FAKE_PLUGIN));
      made->host_memory();
      return made;
    }();
    return *client;
  }

  std::unique_ptr<Callable> callable() {
    return std::make_unique<Callable>(
        client_, client_.compile(kUpdate, {}),
        std::vector<Argument>{{Kind::kInput, 0, kVector, 0}, {Kind::kMutated, 0, kVector, 0}},
        std::vector<Type>{kVector}, stats_, workers_);
  }

  static void call(Callable& callable, const void* read, void* mutated) {
    const std::array<const void*, 1> inputs = {read};
    const std::array<void*, 1> outputs = {mutated};
    NoLock lock;
    callable.run({inputs, {}, outputs}, Origin::kMemory, lock);
  }

  // copied inputs, bytes in, bytes out
  std::array<int64_t, 3> copied() const {
    const Counts c = stats_.snapshot();
    return {c.copied_inputs, c.host_to_device_bytes, c.device_to_host_bytes};
  }

  pjrt::FakeControl control_;
  const pjrt::Client& client_;
  std::vector<int64_t> before_;
  Stats stats_;
  Workers workers_{[] { return 2; }};
};

constexpr std::array<int64_t, 3> kNothing = {0, 0, 0};

TEST_F(MutationTest, IsInPlace) {
  const auto program = callable();
  const HostArray read(kVectorBytes);
  const HostArray mutated(kVectorBytes);
  call(*program, read.data(), mutated.data());
  call(*program, read.data(), mutated.data());
  EXPECT_EQ(copied(), kNothing);
  EXPECT_EQ(control_.calls("PJRT_Client_BufferFromHostBuffer"), 2)
      << "the one that is read is kept, and the mutated one is the result before";
  EXPECT_EQ(control_.live("buffer"), before_[0] + 2);
}

TEST_F(MutationTest, OtherMemoryIsTakenAnew) {
  {
    const auto program = callable();
    const HostArray read(kVectorBytes);
    const HostArray first(kVectorBytes);
    const HostArray second(kVectorBytes);
    call(*program, read.data(), first.data());
    call(*program, read.data(), second.data());
    call(*program, read.data(), first.data());
    EXPECT_EQ(control_.calls("PJRT_Client_BufferFromHostBuffer"), 4);
    EXPECT_EQ(control_.live("buffer"), before_[0] + 2);
    EXPECT_EQ(copied(), kNothing);
  }
  EXPECT_EQ(control_.all_live(), before_);
}

TEST_F(MutationTest, AfterAFailureTheMemoryIsTakenAnew) {
  const auto program = callable();
  const HostArray read(kVectorBytes);
  const HostArray mutated(kVectorBytes);
  call(*program, read.data(), mutated.data());
  control_.fail_with("PJRT_LoadedExecutable_Execute", 1, 13);
  EXPECT_THROW(call(*program, read.data(), mutated.data()), Error);
  call(*program, read.data(), mutated.data());
  EXPECT_EQ(control_.calls("PJRT_Client_BufferFromHostBuffer"), 3);
  EXPECT_EQ(control_.live("buffer"), before_[0] + 2);
}

TEST_F(MutationTest, ThreadsHaveBuffersOfTheirOwn) {
  {
    const auto program = callable();
    const HostArray read(kVectorBytes);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const HostArray mutated(kVectorBytes);
        for (int i = 0; i < 500; ++i) call(*program, read.data(), mutated.data());
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(stats_.snapshot().executions, 2000);
    EXPECT_EQ(control_.live("buffer"), before_[0] + 2);
  }
  EXPECT_EQ(control_.all_live(), before_);
}

TEST_F(MutationTest, CopiesWhatOverlapsAnotherArgument) {
  const auto program = callable();
  const HostArray memory(3 * kVectorBytes);
  char* data = static_cast<char*>(memory.data());
  call(*program, data, data + kVectorBytes);
  call(*program, data + kVectorBytes, data);
  EXPECT_EQ(copied(), kNothing) << "side by side";
  stats_.reset();
  call(*program, data, data);
  EXPECT_EQ(copied(), (std::array<int64_t, 3>{1, kBytes, kBytes}));
}

TEST_F(MutationTest, CopiesMisalignedMemory) {
  const auto program = callable();
  const HostArray read(kVectorBytes);
  const HostArray mutated(kVectorBytes, 4);
  std::memset(mutated.data(), 7, kVectorBytes);
  call(*program, read.data(), mutated.data());
  EXPECT_EQ(copied(), (std::array<int64_t, 3>{1, kBytes, kBytes}));
}

TEST_F(MutationTest, AFailedCallLeavesNothingBehind) {
  const HostArray memory(2 * kVectorBytes);
  char* data = static_cast<char*>(memory.data());
  for (const char* function : {"PJRT_Client_BufferFromHostBuffer", "PJRT_LoadedExecutable_Execute",
                               "PJRT_Event_IsReady", "PJRT_Event_Await"}) {
    for (const size_t distance : {size_t{0}, kVectorBytes}) {
      const auto program = callable();
      call(*program, data, data + distance);
      for (const int64_t nth : {1, 2}) {
        ASSERT_TRUE(control_.fail_at(function, nth));
        // Not every function is called so often.
        pjrt::error_of([&] { call(*program, data, data + distance); });
        control_.reset();
        call(*program, data, data + distance);
      }
    }
  }
  EXPECT_EQ(control_.all_live(), before_);
}

}  // namespace
}  // namespace torch_pjrt::run
