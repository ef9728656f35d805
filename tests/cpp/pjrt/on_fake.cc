// Runs the device tests on the fake plugin.
#include "device_test.h"

namespace torch_pjrt::pjrt {

INSTANTIATE_TEST_SUITE_P(OnFake, DeviceTest, testing::Values(Device{FAKE_PLUGIN, false}),
                         [](const auto&) { return "Plugin"; });

}  // namespace torch_pjrt::pjrt
