// The fake plugin's modes: another API version, memory of its own, strictness, slow compiles; and
// that our layer gives a clear error, or does without, where the plugin's table is older.
#include <chrono>
#include <cmath>

#include "device_test.h"
#include "fake_control.h"

namespace torch_pjrt::pjrt {
namespace {

class FakeModesTest : public testing::Test {
 protected:
  FakeModesTest() {
    // A death test runs in a process of its own, which has no threads of the other tests.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    fake_.reset();
  }
  ~FakeModesTest() override {
    fake_.set_api(PJRT_API_MINOR, nullptr);
    fake_.reset();
  }

  static std::unique_ptr<Client> client(const std::vector<ClientOption>& options) {
    return Client::create(Plugin::load(FAKE_PLUGIN), options);
  }

  static std::string compile_and_run() {
    return error_of([] {
      const auto made = client({});
      const HostArray input(kVectorBytes);
      input.fill(16, 3.0f);
      const Buffer a =
          made->from_host(input.data(), kVector, HostSemantics::kImmutableOnlyDuringCall);
      EXPECT_EQ(floats(a), std::vector<float>(16, 3.0f));
      const auto executable = made->compile(kNegate, {});
      executable->output_types();
      executable->flops();
      executable->code_size_bytes();
      EXPECT_EQ(run(*executable, {&a}).size(), 1u);
      made->host_memory();
    });
  }

  const FakeControl fake_{FAKE_PLUGIN};
};

TEST_F(FakeModesTest, OlderTableGivesAClearErrorOrDoesWithout) {
  ASSERT_EQ(compile_and_run(), "");
  std::vector<std::string> used;
  for (int64_t i = 0; fake_.function(i); ++i) {
    if (fake_.calls(fake_.function(i)) > 0) used.emplace_back(fake_.function(i));
  }
  EXPECT_GT(used.size(), 20u);
  for (const std::string& end : used) {
    // Without it an error has no text that we could read, and no way to be freed.
    if (end.starts_with("PJRT_Error_")) continue;
    const std::vector<int64_t> before = fake_.all_live();
    ASSERT_TRUE(fake_.set_api(7, end.c_str()));
    EXPECT_EQ(Plugin::load(FAKE_PLUGIN)->api().minor(), 7);
    fake_.reset();
    const std::string error = compile_and_run();
    EXPECT_EQ(fake_.calls(end.c_str()), 0) << end;
    EXPECT_EQ(fake_.all_live(), before) << end;
    const std::string what =
        ": the plugin doesn't have this function (it speaks PJRT C API 0.7, "
        "we were built for";
    EXPECT_TRUE(error.empty() || error.find(what) != std::string::npos) << end << ": " << error;
    EXPECT_TRUE(error.empty() || error.find("use a newer version") != std::string::npos) << error;
  }
}

TEST_F(FakeModesTest, LateExecutionsEndAfterTheirCall) {
  const auto made = client({{"late_ms", int64_t{200}}});
  const auto executable = made->compile(kNegate, {});
  const HostArray input(kVectorBytes);
  input.fill(16, 3.0f);
  const Buffer a = made->from_host(input.data(), kVector, HostSemantics::kImmutableOnlyDuringCall);
  EXPECT_EQ(fake_.running(), 0);
  std::vector<Buffer> outputs;
  PJRT_Buffer* arguments[] = {a.get()};
  const Event end = executable->execute(arguments, {}, outputs);
  EXPECT_FALSE(end.is_ready());
  EXPECT_FALSE(outputs[0].ready().is_ready());
  EXPECT_EQ(fake_.running(), 1);
  floats(outputs[0]);
  EXPECT_TRUE(end.is_ready());
  EXPECT_EQ(fake_.running(), 0);
  const Event second = executable->execute(arguments, {}, outputs);
  second.await();
  EXPECT_EQ(fake_.running(), 0);
}

TEST_F(FakeModesTest, FactsThatAnOlderPluginLacksAreLeftOut) {
  // The last functions of the table that the fake has are of this kind.
  ASSERT_TRUE(fake_.set_api(7, "PJRT_Executable_OutputDimensions"));
  const auto plugin = Plugin::load(FAKE_PLUGIN);
  EXPECT_FALSE(plugin->api().has<&PJRT_Api::PJRT_Executable_OutputDimensions>());
  const auto made = Client::create(plugin);
  EXPECT_EQ(made->compile(kNegate, {})->output_types(), std::nullopt);
}

TEST_F(FakeModesTest, NewerTableWorks) {
  ASSERT_TRUE(fake_.set_api(PJRT_API_MINOR + 20, nullptr));
  const auto plugin = Plugin::load(FAKE_PLUGIN);
  EXPECT_EQ(plugin->api().minor(), PJRT_API_MINOR + 20);
  EXPECT_GT(plugin->api().table()->struct_size, sizeof(PJRT_Api));
  EXPECT_EQ(compile_and_run(), "");
}

TEST_F(FakeModesTest, RefusesModesAndVersionsThatThereArent) {
  EXPECT_FALSE(fake_.set("no such mode", 1));
  EXPECT_FALSE(fake_.set("strict", 2));
  EXPECT_FALSE(fake_.set("devices", -1));
  EXPECT_FALSE(fake_.set_api(7, "PJRT_No_Such_Function"));
}

TEST_F(FakeModesTest, DefaultsHoldForClientsMadeAfterwards) {
  ASSERT_TRUE(fake_.set("devices", 3));
  EXPECT_EQ(client({})->device_count(), 3u);
  EXPECT_EQ(client({{"devices", 2}})->device_count(), 2u);
  ASSERT_TRUE(fake_.set("devices", 1));
  EXPECT_EQ(client({})->device_count(), 1u);
}

TEST_F(FakeModesTest, OwnMemoryHasNoAddressAndIsNobodyElses) {
  const auto made = client({{"own_memory", true}});
  EXPECT_FALSE(made->host_memory().zero_copy_in);
  EXPECT_FALSE(made->host_memory().donated_out);
  const HostArray memory(kVectorBytes);
  memory.fill(16, 5.0f);
  const Buffer a = made->from_host(memory.data(), kVector, HostSemantics::kMutableZeroCopy);
  memory.fill(16, 6.0f);
  EXPECT_EQ(floats(a), std::vector<float>(16, 5.0f));
  EXPECT_NE(error_of([&] { a.unsafe_pointer(); }).find("UNIMPLEMENTED"), std::string::npos);
}

TEST_F(FakeModesTest, OwnMemoryThatWasNeverWrittenIsNaN) {
  const auto made = client({{"own_memory", true}});
  const HostArray memory(kVectorBytes);
  memory.fill(16, 5.0f);
  const Buffer a = made->from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy);
  const auto outputs = run(*made->compile(kNegate, {}), {&a});
  for (const float value : floats(outputs[0])) EXPECT_TRUE(std::isnan(value));
  // Donated memory keeps what it held, since nothing is executed.
  const auto donated = run(*made->compile(kNegateInPlace, {}), {&a});
  EXPECT_EQ(floats(donated[0]), std::vector<float>(16, 5.0f));
}

TEST_F(FakeModesTest, TakesTheTimeItIsToldTo) {
  const auto made = client({});
  EXPECT_FALSE(fake_.delay("PJRT_Client_Compile", -1));
  EXPECT_FALSE(fake_.delay("PJRT_No_Such_Function", 1));
  ASSERT_TRUE(fake_.delay("PJRT_Client_Compile", 30));
  const auto begin = std::chrono::steady_clock::now();
  made->compile(kNegate, {});
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
}

TEST_F(FakeModesTest, FailsWithTheCodeAskedFor) {
  ASSERT_TRUE(fake_.fail_with("PJRT_Client_Create", 1, PJRT_Error_Code_UNAVAILABLE));
  EXPECT_NE(compile_and_run().find("reports UNAVAILABLE"), std::string::npos);
  ASSERT_TRUE(fake_.fail_with("PJRT_Client_Create", 1, PJRT_Error_Code_RESOURCE_EXHAUSTED));
  const std::string error = compile_and_run();
  EXPECT_TRUE(error.starts_with("out_of_memory: PJRT_Client_Create: the plugin reports RESOURCE"))
      << error;
  EXPECT_NE(error.find("use smaller tensors"), std::string::npos) << error;
  ASSERT_TRUE(fake_.fail_at("PJRT_Client_Create", 1));
  EXPECT_NE(compile_and_run().find("reports INTERNAL"), std::string::npos);
}

// What a correct caller does runs on a strict client as on another.
class StrictTest : public FakeModesTest {
 protected:
  static std::unique_ptr<Client> strict() { return client({{"strict", true}}); }

  static Buffer vector(const Client& client, const void* memory,
                       HostSemantics semantics = HostSemantics::kMutableZeroCopy) {
    return client.from_host(memory, kVector, semantics);
  }

  const HostArray memory_{kVectorBytes};
  const HostArray other_{kVectorBytes};
};
using StrictDeathTest = StrictTest;

TEST_F(StrictTest, CorrectUseIsFine) {
  const int64_t before = fake_.live("buffer");
  {
    const auto made = strict();
    const Buffer a = vector(*made, memory_.data());
    const Buffer b = vector(*made, other_.data());
    const auto outputs = run(*made->compile(kNegateInto, {}), {&a, &b});
    EXPECT_TRUE(b.is_deleted());
    floats(outputs[0]);
  }
  EXPECT_EQ(fake_.live("buffer"), before);
}

TEST_F(StrictDeathTest, UseAfterDestroy) {
  const auto made = strict();
  const Api& api = made->plugin().api();
  PJRT_Buffer* gone = vector(*made, memory_.data()).get();
  EXPECT_DEATH((api.call<&PJRT_Api::PJRT_Buffer_IsDeleted>({0, nullptr, gone, false})),
               "strict: PJRT_Buffer_IsDeleted was given a destroyed buffer");
  EXPECT_DEATH((api.call<&PJRT_Api::PJRT_Buffer_Destroy>({0, nullptr, gone})),
               "strict: PJRT_Buffer_Destroy was given a destroyed buffer");
  const auto executable = made->compile(kNegate, {});
  std::vector<Buffer> outputs;
  EXPECT_DEATH(executable->execute(std::vector{gone}, {}, outputs),
               "strict: PJRT_LoadedExecutable_Execute was given a destroyed buffer");
  PJRT_Event* event = vector(*made, memory_.data()).ready().get();
  EXPECT_DEATH((api.call<&PJRT_Api::PJRT_Event_Await>({0, nullptr, event})),
               "strict: PJRT_Event_Await was given a destroyed event");
}

TEST_F(StrictDeathTest, UseAfterDonation) {
  const auto made = strict();
  const Buffer a = vector(*made, memory_.data());
  const auto executable = made->compile(kNegateInPlace, {});
  run(*executable, {&a});
  EXPECT_DEATH(run(*executable, {&a}), "strict: use of a buffer that was deleted or donated");
  EXPECT_DEATH(floats(a), "strict: use of a buffer that was deleted or donated");
}

TEST_F(StrictDeathTest, WrongDtypeOrShape) {
  const auto made = strict();
  const auto executable = made->compile(kNegate, {});
  const auto run_with = [&](const Type& type) {
    const Buffer a = made->from_host(memory_.data(), type, HostSemantics::kImmutableZeroCopy);
    run(*executable, {&a});
  };
  EXPECT_DEATH(run_with({DType::kI32, {16}}),
               "strict: .*: argument 0 is 16xi32, the program wants 16xf32");
  EXPECT_DEATH(run_with({DType::kF32, {4, 4}}), "argument 0 is 4x4xf32, the program wants 16xf32");
}

TEST_F(StrictDeathTest, DonatedMemoryThatOverlaps) {
  const auto made = strict();
  const auto executable = made->compile(kNegateInto, {});
  const Buffer a = vector(*made, memory_.data(), HostSemantics::kImmutableZeroCopy);
  const Buffer same = vector(*made, memory_.data());
  EXPECT_DEATH(
      run(*executable, {&a, &same}),
      "strict: .*: the memory of argument 1, which is donated, overlaps that of argument 0");
}

TEST_F(StrictDeathTest, ObjectsThatOutliveTheirClient) {
  EXPECT_DEATH(
      {
        auto made = strict();
        auto* kept = new Buffer(vector(*made, memory_.data()));
        made.reset();
        delete kept;
      },
      "strict: PJRT_Client_Destroy: 1 objects of kind buffer were never destroyed");
}

TEST_F(StrictDeathTest, EventThatIsThereAtExit) {
  EXPECT_DEATH(
      {
        auto* made = strict().release();
        vector(*made, memory_.data());
        new Event(vector(*made, memory_.data()).ready());
        std::exit(0);
      },
      "strict: at exit 1 objects of kind event were never destroyed");
}

}  // namespace
}  // namespace torch_pjrt::pjrt
