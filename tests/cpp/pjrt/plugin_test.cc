#include "pjrt/plugin.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "device_test.h"
#include "fake_control.h"

namespace torch_pjrt::pjrt {
namespace {

std::string load_error(const std::string& path) {
  return error_of([&] { Plugin::load(path); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A folder that goes when the test ends.
class Folder {
 public:
  Folder() {
    std::string pattern = testing::TempDir() + "pjrt_plugin_test_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST(PluginTest, MissingFile) {
  const std::string error = load_error("/no/such/plugin.so");
  EXPECT_TRUE(error.starts_with("invalid: PJRT plugin /no/such/plugin.so: no such file; give"))
      << error;
  EXPECT_TRUE(load_error("/").starts_with("invalid: PJRT plugin /: no such file"));
}

TEST(PluginTest, NameWithoutSlashIsAFileHere) {
  // Not libm of the system's folders.
  EXPECT_TRUE(contains(load_error("libm.so.6"), "/libm.so.6: no such file"));
}

TEST(PluginTest, TextFile) {
  const Folder folder;
  std::ofstream(folder.file("text.so")) << "some text, which is long enough to have been a header";
  const std::string error = load_error(folder.file("text.so"));
  EXPECT_TRUE(error.starts_with("invalid: ")) << error;
  EXPECT_TRUE(contains(error, "text.so: not a library that can be loaded (")) << error;
}

TEST(PluginTest, LibraryThatIsNoPlugin) {
  const std::string error = load_error(NO_SYMBOL_PLUGIN);
  EXPECT_TRUE(error.starts_with("invalid: ")) << error;
  EXPECT_TRUE(contains(error, "it has no function GetPjrtApi; give the path")) << error;
}

TEST(PluginTest, NoTable) {
  EXPECT_TRUE(contains(load_error(NO_TABLE_PLUGIN), "GetPjrtApi gives no function table"));
}

TEST(PluginTest, TableWithoutVersion) {
  EXPECT_TRUE(contains(load_error(NO_VERSION_PLUGIN), "its function table has 8 bytes"));
}

TEST(PluginTest, AnotherMajorVersion) {
  const std::string error = load_error(OTHER_MAJOR_PLUGIN);
  EXPECT_TRUE(error.starts_with("invalid: ")) << error;
  EXPECT_TRUE(contains(error, str("it speaks PJRT C API ", PJRT_API_MAJOR + 1, ".7, we speak ",
                                  PJRT_API_MAJOR, ".", PJRT_API_MINOR)))
      << error;
}

TEST(PluginTest, FunctionsBeyondTheTableAreNotCalled) {
  const auto plugin = Plugin::load(OLD_PLUGIN);
  EXPECT_EQ(plugin->api().minor(), 7);
  EXPECT_FALSE(plugin->api().has<&PJRT_Api::PJRT_Client_Create>());
  EXPECT_FALSE(plugin->api().has<&PJRT_Api::PJRT_Event_Await>());  // within, but null
  EXPECT_EQ(plugin->api().ask<&PJRT_Api::PJRT_Client_Create>({}), std::nullopt);
  plugin->api().release<&PJRT_Api::PJRT_Client_Destroy>({});
  const std::string error = error_of([&] { Client::create(plugin); });
  EXPECT_TRUE(error.starts_with("plugin: PJRT_Client_Create: the plugin doesn't have this"))
      << error;
  EXPECT_TRUE(contains(error, "0.7")) << error;
}

TEST(PluginTest, IsSetUpOnceHoweverOftenItIsLoaded) {
  const Folder folder;
  const std::string path = folder.file("plugin.so");  // not yet loaded by another test
  std::filesystem::copy_file(FAKE_PLUGIN, path);
  std::filesystem::create_symlink(path, folder.file("link.so"));
  const FakeControl fake(path);
  ASSERT_TRUE(fake.fail_at("PJRT_Plugin_Initialize", 1));
  EXPECT_TRUE(load_error(path).starts_with("plugin: PJRT_Plugin_Initialize: "));
  EXPECT_EQ(fake.live("error"), 0);
  EXPECT_EQ(load_error(path), "") << "a set-up that failed is tried again";
  EXPECT_EQ(load_error(path), "");
  EXPECT_EQ(load_error(folder.file("link.so")), "");
  EXPECT_EQ(fake.calls("PJRT_Plugin_Initialize"), 2);
}

TEST(PluginTest, TellsAboutItself) {
  const auto plugin = Plugin::load(FAKE_PLUGIN);
  EXPECT_EQ(plugin->path(), FAKE_PLUGIN);
  EXPECT_EQ(plugin->api().major(), PJRT_API_MAJOR);
  EXPECT_EQ(plugin->api().minor(), PJRT_API_MINOR);
  EXPECT_TRUE(plugin->api().has<&PJRT_Api::PJRT_Client_Create>());
  EXPECT_FALSE(plugin->api().has<&PJRT_Api::PJRT_Client_DmaMap>());
  EXPECT_EQ(plugin->attributes().at("stablehlo_current_version"), "1.13.3");
}

TEST(PluginTest, IdentityIsThatOfTheCode) {
  const Folder folder;
  const auto load_copy = [&](const char* from, const std::string& name, const char* suffix) {
    std::filesystem::copy_file(from, folder.file(name));
    std::ofstream(folder.file(name), std::ios::app) << suffix;
    return Plugin::load(folder.file(name));
  };
  EXPECT_EQ(Plugin::load(OLD_PLUGIN)->identity(), "build-id:0123456789abcdef");
  EXPECT_EQ(load_copy(OLD_PLUGIN, "a.so", "x")->identity(), "build-id:0123456789abcdef");
  const std::string other = Plugin::load(FAKE_PLUGIN)->identity();
  EXPECT_NE(other, "build-id:0123456789abcdef");
  EXPECT_EQ(load_copy(FAKE_PLUGIN, "b.so", "")->identity(), other);
}

}  // namespace
}  // namespace torch_pjrt::pjrt
