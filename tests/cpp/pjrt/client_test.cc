#include "pjrt/client.h"

#include "device_test.h"

namespace torch_pjrt::pjrt {
namespace {

TEST_P(DeviceTest, ClientTellsItsPlatform) {
  EXPECT_EQ(client().platform_name(), computes() ? "cpu" : "fake");
  EXPECT_NE(client().platform_version(), "");
  EXPECT_NE(client().device_kind(), "");
  EXPECT_GE(client().device_count(), 1u);
  EXPECT_EQ(client().plugin().path(), GetParam().plugin_path);
  EXPECT_EQ(client().plugin().api().major(), PJRT_API_MAJOR);
  EXPECT_EQ(client().plugin().attributes().count("stablehlo_current_version"), 1u);
}

TEST_P(DeviceTest, HostMemoryIsTheDevices) {
  EXPECT_TRUE(client().host_memory().zero_copy_in);
  EXPECT_TRUE(client().host_memory().donated_out);
}

TEST_P(DeviceTest, CompileErrorTellsLineAndColumnAndLeavesTheClientWell) {
  const std::string bad = module_text("%a: tensor<16xf99>", "tensor<16xf32>", "return %a");
  const std::string error = error_of([&] { client().compile(bad, {}); });
  EXPECT_TRUE(error.starts_with("plugin: PJRT_Client_Compile: the plugin reports ")) << error;
  EXPECT_TRUE(has_line_and_column(error.substr(20))) << error;
  EXPECT_NE(error_of([&] { client().compile(kNegate.substr(0, kNegate.size() - 6), {}); }), "");
  EXPECT_EQ(client().compile(kNegate, {})->num_outputs(), 1u);
}

}  // namespace
}  // namespace torch_pjrt::pjrt
