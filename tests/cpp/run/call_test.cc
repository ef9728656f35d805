#include "run/call.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "device_test.h"
#include "fake_control.h"

namespace torch_pjrt::run {
namespace {

using Kind = Argument::Kind;
using pjrt::HostArray;
using pjrt::kVector;
using pjrt::kVectorBytes;

const std::string kAdd = pjrt::module_text(
    "%a: tensor<16xf32>, %b: tensor<f64>, %c: tensor<i64>, "
    "%d: tensor<16xf32> {tf.aliasing_output = 0 : i32}",
    "tensor<16xf32>", "return %a : tensor<16xf32>");

class CallTest : public testing::Test {
 protected:
  CallTest() : control_(FAKE_PLUGIN), client_(shared_client()), before_(control_.all_live()) {
    control_.reset();
  }

  static const pjrt::Client& shared_client() {
    static const auto client = [] {
      auto made = pjrt::Client::create(pjrt::Plugin::load(FAKE_PLUGIN));
      made->host_memory();  // so that its probe isn't among the calls counted
      return made;
    }();
    return *client;
  }

  std::unique_ptr<Callable> callable() {
    return std::make_unique<Callable>(
        client_, client_.compile(kAdd, {}),
        std::vector<Argument>{{Kind::kInput, 0, kVector, 0},
                              {Kind::kConstant, 0, {DType::kF64, {}}, 0},
                              {Kind::kScalar, 0, {DType::kI64, {}}, 0},
                              {Kind::kOutputMemory, 0, kVector, 0}},
        std::vector<Type>{kVector}, stats_, workers_);
  }

  // Returns its only argument, the second draw.
  std::unique_ptr<Callable> second_draw() {
    const Type type{DType::kI64, {2}};
    const std::string text =
        pjrt::module_text("%a: tensor<2xi64>", "tensor<2xi64>", "return %a : tensor<2xi64>");
    return std::make_unique<Callable>(client_, client_.compile(text, {}),
                                      std::vector<Argument>{{Kind::kDraw, 1, type, 0}},
                                      std::vector<Type>{type}, stats_, workers_);
  }

  std::vector<Copied> call(Callable& callable, const void* input, void* output,
                           Origin origin = Origin::kMemory) {
    const std::array<const void*, 1> inputs = {input};
    const std::array<int64_t, 1> scalars = {3};
    const std::array<void*, 1> outputs = {output};
    NoLock lock;
    return callable.run({inputs, scalars, outputs}, origin, lock);
  }

  // What is there only where the plugin uses the host's memory.
  int64_t if_shared(int64_t n) const { return client_.host_memory().zero_copy_in ? n : 0; }
  // What is there only where it doesn't.
  int64_t if_copied(int64_t n) const { return n - if_shared(n); }

  int64_t buffers_made() const { return control_.calls("PJRT_Client_BufferFromHostBuffer"); }

  pjrt::FakeControl control_;
  const pjrt::Client& client_;
  std::vector<int64_t> before_;
  Stats stats_;
  Workers workers_{[] { return 2; }};
};

TEST_F(CallTest, TakesDrawsAnewAtEachCall) {
  const auto program = second_draw();
  const HostArray output(2 * sizeof(int64_t));
  const std::array<void*, 1> outputs = {output.data()};
  for (const int64_t first : {1, 2}) {
    const std::array<int64_t, 4> draws = {-7, -8, first, first + 10};
    NoLock lock;
    program->run({{}, {}, outputs, draws}, Origin::kMemory, lock);
  }
  EXPECT_EQ(buffers_made(), 2);
  EXPECT_EQ(stats_.snapshot().copied_inputs, 0);
}

TEST_F(CallTest, KeepsTheBufferOfMemoryThatStays) {
  const auto program = callable();
  const HostArray input(kVectorBytes);
  const HostArray output(kVectorBytes);
  EXPECT_EQ(buffers_made(), 1) << "the constant";
  EXPECT_TRUE(call(*program, input.data(), output.data()).empty());
  EXPECT_EQ(buffers_made(), 4) << "input, scalar, output";
  call(*program, input.data(), output.data());
  EXPECT_EQ(buffers_made(), 6 + if_copied(1)) << "scalar, output, and an input that is a copy";
  const Counts counts = stats_.snapshot();
  EXPECT_EQ(counts.executions, 2);
  EXPECT_EQ(counts.memory_hits, 2);
  EXPECT_EQ(counts.copied_inputs, if_copied(2));
  EXPECT_EQ(counts.host_to_device_bytes, if_copied(2 * kVectorBytes));
  EXPECT_EQ(counts.device_to_host_bytes, if_copied(2 * kVectorBytes));
}

TEST_F(CallTest, CopiesMisalignedMemoryAtEachCall) {
  const auto program = callable();
  const HostArray input(kVectorBytes, 4);
  const HostArray output(kVectorBytes);
  for (int i = 0; i < 3; ++i) {
    const std::vector<Copied> copied = call(*program, input.data(), output.data());
    ASSERT_EQ(copied.size(), 1);
    EXPECT_EQ(copied[0].input, 0);
    EXPECT_EQ(copied[0].reason, CopyReason::kNotAligned);
  }
  EXPECT_EQ(stats_.snapshot().copied_inputs, 3);
  EXPECT_EQ(stats_.snapshot().host_to_device_bytes, 3 * static_cast<int64_t>(kVectorBytes));
}

TEST_F(CallTest, CopiesToOutputMemoryThatThePluginCantWriteTo) {
  const auto program = callable();
  const HostArray input(kVectorBytes);
  const HostArray output(kVectorBytes, 4);
  call(*program, input.data(), output.data());
  EXPECT_EQ(stats_.snapshot().device_to_host_bytes, static_cast<int64_t>(kVectorBytes));
}

TEST_F(CallTest, ExecutionsAreCompilesAndHits) {
  const auto program = callable();
  const HostArray input(kVectorBytes);
  const HostArray output(kVectorBytes);
  call(*program, input.data(), output.data(), Origin::kCompiled);
  call(*program, input.data(), output.data());
  const Counts counts = stats_.snapshot();
  EXPECT_EQ(counts.compiles, 1);
  EXPECT_EQ(counts.memory_hits, 1);
  EXPECT_EQ(counts.executions, 2);
  stats_.reset();
  EXPECT_EQ(stats_.snapshot().executions, 0);
}

TEST_F(CallTest, AFailedCallLeavesNothingBehind) {
  const HostArray input(kVectorBytes);
  const HostArray output(kVectorBytes);
  for (const char* function : {"PJRT_Client_BufferFromHostBuffer", "PJRT_LoadedExecutable_Execute",
                               "PJRT_Event_IsReady", "PJRT_Event_Await"}) {
    const auto program = callable();
    call(*program, input.data(), output.data());
    ASSERT_TRUE(control_.fail_at(function, 1));
    EXPECT_THROW(call(*program, input.data(), output.data()), Error) << function;
    call(*program, input.data(), output.data());
  }
  EXPECT_EQ(control_.all_live(), before_);
}

TEST_F(CallTest, ManyThreadsReplaceEachOthersBuffers) {
  {
    const auto program = callable();
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        const HostArray first(kVectorBytes);
        const HostArray second(kVectorBytes);
        const HostArray output(kVectorBytes);
        for (int i = 0; i < 500; ++i) {
          call(*program, (i % 2 ? first : second).data(), output.data());
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(stats_.snapshot().executions, 4000);
    EXPECT_EQ(control_.live("buffer"), before_[0] + 1 + if_shared(1))
        << "the constant, and one kept buffer";
  }
  EXPECT_EQ(control_.all_live(), before_);
}

}  // namespace
}  // namespace torch_pjrt::run
