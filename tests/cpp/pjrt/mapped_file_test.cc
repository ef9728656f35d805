#include "pjrt/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "device_test.h"

namespace torch_pjrt::pjrt {
namespace {

TEST(MappedFileTest, KeepsTheContentItWasMadeFrom) {
  const std::string path = testing::TempDir() + "pjrt_mapped_file_test";
  std::ofstream(path) << "before";
  MappedFile file(path);
  std::filesystem::remove(path);
  std::ofstream(path) << "after";
  EXPECT_EQ(file.content(), "before");
  const MappedFile moved(std::move(file));
  EXPECT_EQ(moved.content(), "before");
  std::filesystem::remove(path);
}

TEST(MappedFileTest, EmptyAndMissingFiles) {
  const std::string path = testing::TempDir() + "pjrt_mapped_file_test_empty";
  std::ofstream(path).flush();
  EXPECT_EQ(MappedFile(path).content(), "");
  std::filesystem::remove(path);
  const std::string error = error_of([&] { MappedFile file(path); });
  EXPECT_EQ(error, "invalid: " + path +
                       ": the file can't be opened (No such file or directory); check its path and "
                       "permissions");
}

}  // namespace
}  // namespace torch_pjrt::pjrt
