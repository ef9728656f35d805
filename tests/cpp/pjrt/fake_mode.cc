// Sets the fake plugin up as TORCH_PJRT_TEST_FAKE_MODE says, before the first test: "zero_copy" or
// "own_memory", both strict.
#include <gtest/gtest.h>

#include <cstdlib>

#include "fake_control.h"

namespace torch_pjrt::pjrt {
namespace {

class FakeMode : public testing::Environment {
  void SetUp() override {
    const char* mode = std::getenv("TORCH_PJRT_TEST_FAKE_MODE");
    if (!mode) return;
    const FakeControl control(FAKE_PLUGIN);
    ASSERT_TRUE(control.set("strict", 1));
    ASSERT_TRUE(control.set("own_memory", std::string(mode) == "own_memory" ? 1 : 0)) << mode;
  }
};

const testing::Environment* const added = testing::AddGlobalTestEnvironment(new FakeMode);

}  // namespace
}  // namespace torch_pjrt::pjrt
