#include "compile/runtime.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "device_test.h"
#include "fake_control.h"
#include "lasting_runtime.h"

namespace torch_pjrt::compile {
namespace {

namespace fs = std::filesystem;

class RuntimeTest : public testing::Test {
 protected:
  RuntimeTest() : control_(FAKE_PLUGIN) {
    std::string pattern = testing::TempDir() + "runtime_test_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~RuntimeTest() override { fs::remove_all(folder_); }

  static Runtime& runtime() {
    static Runtime& instance = lasting_runtime();
    return instance;
  }

  pjrt::FakeControl control_;
  fs::path folder_;
};

TEST_F(RuntimeTest, APluginIsOneDeviceByWhateverPath) {
  Device& device = runtime().device(FAKE_PLUGIN);
  EXPECT_EQ(&runtime().device(FAKE_PLUGIN), &device);
  const int64_t initialized = control_.calls("PJRT_Plugin_Initialize");
  const int64_t clients = control_.live("client");
  const fs::path link = folder_ / "link.so";
  fs::create_symlink(FAKE_PLUGIN, link);
  EXPECT_EQ(&runtime().device(link), &device);
  // A library of its own, but the programs of both have the same keys.
  const fs::path copy = folder_ / "copy.so";
  fs::copy_file(FAKE_PLUGIN, copy);
  EXPECT_EQ(&runtime().device(copy), &device);
  EXPECT_EQ(control_.calls("PJRT_Plugin_Initialize"), initialized);
  EXPECT_EQ(control_.live("client"), clients);
}

TEST_F(RuntimeTest, APluginThatFailedIsTriedAgain) {
  static Runtime& other = lasting_runtime();
  ASSERT_TRUE(control_.fail_at("PJRT_Client_Create", 1));
  EXPECT_NE(pjrt::error_of([&] { other.device(FAKE_PLUGIN); }), "");
  EXPECT_EQ(pjrt::error_of([&] { other.device(FAKE_PLUGIN); }), "");
}

}  // namespace
}  // namespace torch_pjrt::compile
