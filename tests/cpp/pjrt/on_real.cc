// Runs the device tests on the plugin that the environment names.
#include "device_test.h"

namespace torch_pjrt::pjrt {
namespace {

std::string test_plugin() {
  const char* path = std::getenv("TORCH_PJRT_TEST_PLUGIN");
  return path ? path : "";
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(OnReal, DeviceTest, testing::Values(Device{test_plugin(), true}),
                         [](const auto&) { return "Plugin"; });

}  // namespace torch_pjrt::pjrt
