// Every function that the layer calls fails once at each of its calls, and nothing leaks.
#include <set>

#include "device_test.h"
#include "fake_control.h"

namespace torch_pjrt::pjrt {
namespace {

// Errors of these have nobody to go to, or stand for "the plugin doesn't tell".
const std::set<std::string> kIgnored = {
    "PJRT_Plugin_Attributes",
    "PJRT_Event_Destroy",
    "PJRT_Client_Destroy",
    "PJRT_Buffer_Destroy",
    "PJRT_Executable_Destroy",
    "PJRT_LoadedExecutable_Destroy",
    "PJRT_Executable_OutputElementTypes",
    "PJRT_Executable_OutputDimensions",
    "PJRT_Executable_GetCostAnalysis",
    "PJRT_Executable_SizeOfGeneratedCodeInBytes",
};

// Calls every function of the layer.
void compile_and_run() {
  const auto client = Client::create(Plugin::load(FAKE_PLUGIN));
  const auto executable = client->compile(kNegateInto, {});
  executable->output_types();
  executable->flops();
  executable->code_size_bytes();
  const HostArray input(kVectorBytes);
  const HostArray output(kVectorBytes);
  input.fill(16, 1.0f);
  output.fill(16, 1.0f);
  Event done(client->plugin().api(), nullptr);
  Buffer a =
      client->from_host(input.data(), kVector, HostSemantics::kImmutableUntilTransferCompletes);
  const Buffer b =
      client->from_host(output.data(), kVector, HostSemantics::kMutableZeroCopy, &done);
  const std::vector<Buffer> outputs = run(*executable, {&a, &b});
  outputs[0].ready().await();
  floats(outputs[0]);
  outputs[0].unsafe_pointer();
  a.delete_memory();
  a.is_deleted();
}

class FailureTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_.reset();
    live_before_ = fake_.all_live();
  }
  void TearDown() override { fake_.reset(); }

  // Name and number of calls of each function that `body` uses and that can fail.
  template <class Body>
  std::vector<std::pair<std::string, int64_t>> functions_of(Body body) {
    fake_.reset();
    body();
    std::vector<std::pair<std::string, int64_t>> used;
    for (int64_t i = 0; fake_.function(i); ++i) {
      const std::string name = fake_.function(i);
      const int64_t count = fake_.calls(name.c_str());
      if (count > 0 && fake_.fail_at(name.c_str(), 1)) used.emplace_back(name, count);
    }
    fake_.reset();
    return used;
  }

  const FakeControl fake_{FAKE_PLUGIN};
  std::vector<int64_t> live_before_;
};

TEST_F(FailureTest, NothingLeaksWhereverACallFails) {
  Plugin::load(FAKE_PLUGIN);  // its set-up, done once a process, is tested with Plugin
  const auto used = functions_of(compile_and_run);
  EXPECT_EQ(fake_.all_live(), live_before_);
  EXPECT_GE(used.size(), 27u);
  for (const auto& [function, count] : used) {
    for (int64_t nth = 1; nth <= count; ++nth) {
      fake_.reset();
      ASSERT_TRUE(fake_.fail_at(function.c_str(), nth));
      const std::string error = error_of(compile_and_run);
      EXPECT_GE(fake_.calls(function.c_str()), nth);
      if (kIgnored.contains(function)) {
        EXPECT_EQ(error, "");
      } else {
        EXPECT_EQ(error, str("plugin: ", function, ": the plugin reports INTERNAL: fake plugin: ",
                             function, " was told to fail at call ", nth));
      }
      EXPECT_EQ(fake_.all_live(), live_before_) << function << ", call " << nth;
    }
  }
}

TEST_F(FailureTest, WaitTellsTheErrorOfACompleteEvent) {
  const auto client = Client::create(Plugin::load(FAKE_PLUGIN));
  const auto executable = client->compile(kNegate, {});
  const HostArray memory(kVectorBytes);
  const Buffer a = client->from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy);
  ASSERT_TRUE(fake_.fail_at("PJRT_Event_Await", 1));
  EXPECT_NE(error_of([&] { run(*executable, {&a}); }).find("PJRT_Event_Await"), std::string::npos);
}

TEST_F(FailureTest, ErrorWhoseCodeCantBeHadIsStillAnError) {
  ASSERT_TRUE(fake_.fail_at("PJRT_Client_Create", 1));
  ASSERT_TRUE(fake_.fail_at("PJRT_Error_GetCode", 1));
  EXPECT_EQ(error_of(compile_and_run),
            "plugin: PJRT_Client_Create: the plugin reports UNKNOWN: fake plugin: "
            "PJRT_Client_Create was told to fail at call 1");
  EXPECT_EQ(fake_.all_live(), live_before_);
}

TEST_F(FailureTest, ProbeOfAPluginThatRefusesAnswersFalse) {
  const auto probe = [] {
    const auto client = Client::create(Plugin::load(FAKE_PLUGIN));
    const HostMemory memory = client->host_memory();
    return std::make_pair(memory.zero_copy_in, memory.donated_out);
  };
  EXPECT_EQ(probe(), std::make_pair(true, true));
  fake_.fail_at("PJRT_Client_Compile", 1);
  EXPECT_EQ(probe(), std::make_pair(true, false));
  fake_.fail_at("PJRT_LoadedExecutable_Execute", 1);
  EXPECT_EQ(probe(), std::make_pair(true, false));
  fake_.fail_at("PJRT_Event_Await", 1);
  EXPECT_EQ(probe(), std::make_pair(true, false));
  fake_.fail_at("PJRT_Buffer_UnsafePointer", 1);
  EXPECT_EQ(probe(), std::make_pair(false, true));
  fake_.fail_at("PJRT_Buffer_UnsafePointer", 2);
  EXPECT_EQ(probe(), std::make_pair(true, false));
  fake_.fail_at("PJRT_Client_BufferFromHostBuffer", 1);
  EXPECT_EQ(probe(), std::make_pair(false, true));
  EXPECT_EQ(fake_.all_live(), live_before_);
}

TEST_F(FailureTest, ProbeRunsOncePerClient) {
  const auto client = Client::create(Plugin::load(FAKE_PLUGIN));
  client->host_memory();
  client->host_memory();
  EXPECT_EQ(fake_.calls("PJRT_LoadedExecutable_Execute"), 1);
}

}  // namespace
}  // namespace torch_pjrt::pjrt
