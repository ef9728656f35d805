// What the fake plugin does that a real one doesn't: counting, failing on order, its options, and
// its reading of programs.
#include <cstring>

#include "device_test.h"
#include "fake_control.h"

namespace torch_pjrt::pjrt {
namespace {

class FakePluginTest : public testing::Test {
 protected:
  void SetUp() override { fake_.reset(); }
  void TearDown() override { fake_.reset(); }

  std::string compile_error(const std::string& text) {
    return error_of([&] { client_->compile(text, {}); });
  }

  const FakeControl fake_{FAKE_PLUGIN};
  const std::unique_ptr<const Client> client_ = Client::create(Plugin::load(FAKE_PLUGIN));
};

TEST_F(FakePluginTest, CountsCalls) {
  const auto executable = client_->compile(kNegate, {});
  EXPECT_EQ(fake_.calls("PJRT_Client_Compile"), 1);
  EXPECT_EQ(fake_.calls("PJRT_LoadedExecutable_Execute"), 0);
  EXPECT_EQ(fake_.calls("PJRT_No_Such_Function"), -1);
  fake_.reset();
  EXPECT_EQ(fake_.calls("PJRT_Client_Compile"), 0);
}

TEST_F(FakePluginTest, FailsAtTheCallItIsToldTo) {
  EXPECT_TRUE(fake_.fail_at("PJRT_Client_Compile", 2));
  EXPECT_EQ(compile_error(kNegate), "");
  EXPECT_EQ(compile_error(kNegate),
            "plugin: PJRT_Client_Compile: the plugin reports INTERNAL: fake plugin: "
            "PJRT_Client_Compile was told to fail at call 2");
  EXPECT_EQ(compile_error(kNegate), "");
  EXPECT_TRUE(fake_.fail_at("PJRT_Client_Compile", 1));
  EXPECT_NE(compile_error(kNegate), "");
  EXPECT_TRUE(fake_.fail_at("PJRT_Client_Compile", 1));
  fake_.reset();
  EXPECT_EQ(compile_error(kNegate), "");
}

TEST_F(FakePluginTest, RefusesOrdersItCantKeep) {
  EXPECT_FALSE(fake_.fail_at("PJRT_No_Such_Function", 1));
  EXPECT_FALSE(fake_.fail_at("PJRT_Error_Message", 1));
  EXPECT_FALSE(fake_.fail_at("PJRT_Client_Compile", 0));
}

TEST_F(FakePluginTest, CountsLiveObjects) {
  const int64_t buffers = fake_.live("buffer");
  const int64_t executables = fake_.live("executable");
  const int64_t clients = fake_.live("client");
  {
    const auto client = Client::create(Plugin::load(FAKE_PLUGIN));
    const auto executable = client->compile(kNegate, {});
    const float one = 1;
    const Buffer buffer =
        client->from_host(&one, {DType::kF32, {}}, HostSemantics::kImmutableOnlyDuringCall);
    EXPECT_EQ(fake_.live("buffer"), buffers + 1);
    EXPECT_EQ(fake_.live("executable"), executables + 2);
    EXPECT_EQ(fake_.live("client"), clients + 1);
  }
  EXPECT_EQ(fake_.live("buffer"), buffers);
  EXPECT_EQ(fake_.live("executable"), executables);
  EXPECT_EQ(fake_.live("client"), clients);
  EXPECT_EQ(fake_.live("error"), 0);
  EXPECT_EQ(fake_.live("no such kind"), -1);
}

TEST_F(FakePluginTest, ClientOptionsArriveWithNameAndType) {
  const auto plugin = Plugin::load(FAKE_PLUGIN);
  EXPECT_EQ(Client::create(plugin, {{"devices", 3}})->device_count(), 3u);
  const auto refused = [&](ClientOption option) {
    return error_of([&] { Client::create(plugin, {{"devices", 2}, std::move(option)}); });
  };
  EXPECT_NE(refused({"devices", true}).find("'devices' of type number 4"), std::string::npos);
  EXPECT_NE(refused({"name", "x"}).find("'name' of type number 0"), std::string::npos);
  EXPECT_NE(refused({"list", std::vector<int64_t>{1}}).find("number 2"), std::string::npos);
  EXPECT_NE(refused({"fraction", 0.5f}).find("number 3"), std::string::npos);
}

TEST_F(FakePluginTest, ClientWithoutDevicesIsAnError) {
  const std::string error =
      error_of([&] { Client::create(Plugin::load(FAKE_PLUGIN), {{"devices", 0}}); });
  EXPECT_NE(error.find("has no device that this process can use"), std::string::npos) << error;
}

TEST_F(FakePluginTest, ReadsTheSignatureAmongMuchElse) {
  const auto executable = client_->compile(R"(// func.func @main() in a comment
module @"func.func @main" attributes {mhlo.num_partitions = 1 : i32, a = "}"} {
  func.func private @helper(%x: tensor<7xi8>) -> tensor<7xi8> { return %x : tensor<7xi8> }
  func.func private @main.2(%x: tensor<9xi8>) { return }
  func.func public @main(
      %arg0: tensor<2x3xf32> {jax.buffer_donor = true, a.b = #x.y<[1, 2], {c = 3}>},
      %arg1: tensor<i1> loc("here":1:2),  // a comment (
      %arg2 : tensor<0x2xbf16> { note = ") -> {", tf.aliasing_output = 1 : i32, u },
      %arg3: tensor<4xui64> {"tf.aliasing_output" = 3 : i32, m = affine_map<(d) -> (d)>})
      -> (tensor<2x3xf32> {jax.result_info = "a{"}, tensor<0x2xbf16>, tensor<ui8>,
          tensor<4xui64>) attributes {e = {f = 1}} {
    %0 = "stablehlo.reduce"(%arg0) ({ ^bb0(%p: tensor<f32>): stablehlo.return %p : tensor<f32> })
    return
  }
}
)",
                                           {});
  EXPECT_EQ(executable->num_outputs(), 4u);
  // One of the types has no name of ours, which is why the list is not told.
  EXPECT_EQ(executable->output_types(), std::nullopt);
  const Buffer a = client_->from_host(std::vector<float>(6).data(), {DType::kF32, {2, 3}},
                                      HostSemantics::kImmutableOnlyDuringCall);
  const bool yes = true;
  const Buffer b =
      client_->from_host(&yes, {DType::kBool, {}}, HostSemantics::kImmutableOnlyDuringCall);
  const Buffer c =
      client_->from_host(nullptr, {DType::kBF16, {0, 2}}, HostSemantics::kMutableZeroCopy);
  // Sizes in bytes are all that is compared.
  const Buffer d = client_->from_host(std::vector<double>(4).data(), {DType::kF64, {4}},
                                      HostSemantics::kImmutableOnlyDuringCall);
  const void* memory = d.unsafe_pointer();
  const std::vector<Buffer> outputs = run(*executable, {&a, &b, &c, &d});
  EXPECT_FALSE(a.is_deleted());
  EXPECT_FALSE(b.is_deleted());
  EXPECT_TRUE(c.is_deleted());
  EXPECT_TRUE(d.is_deleted());
  EXPECT_EQ(outputs[3].unsafe_pointer(), memory);
  EXPECT_EQ(outputs[1].type(), (Type{DType::kBF16, {0, 2}}));
  EXPECT_EQ(outputs[2].type(), (Type{DType::kU8, {}}));
  EXPECT_EQ(error_of([&] { outputs[3].type(); }),
            str("unsupported: PJRT buffer of element type number ",
                static_cast<int>(PJRT_Buffer_Type_U64),
                ": torch-pjrt has no such dtype; convert it within the program"));
}

TEST_F(FakePluginTest, ReadsSignaturesWithoutParametersOrResults) {
  EXPECT_EQ(client_->compile("func.func @main() { return }", {})->num_outputs(), 0u);
  EXPECT_EQ(client_->compile("func.func @main() -> () { return }", {})->num_outputs(), 0u);
  EXPECT_EQ(client_->compile("func.func @main() -> tensor<f32> { return }", {})->num_outputs(), 1u);
}

TEST_F(FakePluginTest, RefusesMalformedPrograms) {
  const auto expect = [&](const std::string& text, const std::string& place_and_reason) {
    const std::string error = compile_error(text);
    EXPECT_TRUE(error.ends_with("fake plugin: " + place_and_reason)) << text << "\n" << error;
  };
  expect("", "1:1: error: no function @main");
  expect("module {\n}\n", "3:1: error: no function @main");
  expect("func.func @main() {\n", "2:1: error: expected '}'");
  expect("func.func @main() { ) }", "1:21: error: unexpected ')'");
  expect("func.func @main() { \"x }", "1:25: error: expected '\"' in string literal");
  expect("func.func @main(%a: f32) {}", "1:21: error: expected 'tensor'");
  expect("func.func @main(%a: tensor<?xf32>) {}",
         "1:28: error: expected an element type of fixed size");
  expect("func.func @main(\n%a: tensor<2f32>) {}", "2:13: error: expected 'x' in dimension list");
  expect("func.func @main(%a: tensor<f32> %b: tensor<f32>) {}", "1:33: error: expected ')'");
  expect("func.func @main()", "1:18: error: expected '{'");
  const std::string donor = "func.func @main(%a: tensor<f32> {tf.aliasing_output = ";
  expect(donor + "1 : i32}) -> tensor<f32> {}",
         "1:81: error: tf.aliasing_output of argument 0: no such output");
  expect(donor + "0 : i32}) -> tensor<f64> {}",
         "1:81: error: tf.aliasing_output of argument 0: types differ");
}

TEST_F(FakePluginTest, EventsCallBack) {
  const Api& api = client_->plugin().api();
  const HostArray memory(kVectorBytes);
  Event done(api, nullptr);
  int called = 0;
  const auto call_back = [](PJRT_Error* error, void* count) noexcept {
    if (!error) ++*static_cast<int*>(count);
  };
  {
    const Buffer buffer =
        client_->from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy, &done);
    api.call<&PJRT_Api::PJRT_Event_OnReady>(
        {sizeof(PJRT_Event_OnReady_Args), nullptr, done.get(), call_back, &called});
    EXPECT_EQ(called, 0);
  }
  EXPECT_EQ(called, 1);
  api.call<&PJRT_Api::PJRT_Event_OnReady>(
      {sizeof(PJRT_Event_OnReady_Args), nullptr, done.get(), call_back, &called});
  EXPECT_EQ(called, 2);
}

TEST_F(FakePluginTest, RefusesAStructWithoutItsSize) {
  const auto* table = client_->plugin().api().table();
  PJRT_Client_PlatformName_Args args = {};
  PJRT_Error* error = table->PJRT_Client_PlatformName(&args);
  ASSERT_NE(error, nullptr);
  PJRT_Error_Destroy_Args destroy = {sizeof(destroy), nullptr, error};
  table->PJRT_Error_Destroy(&destroy);
}

}  // namespace
}  // namespace torch_pjrt::pjrt
