// What is done to the files of the cache: no damage makes a call fail or run another program.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "axpy_graph.h"
#include "compile/program.h"
#include "device_test.h"
#include "fake_control.h"
#include "lasting_runtime.h"

namespace torch_pjrt::compile {
namespace {

namespace fs = std::filesystem;

// How often each kind of damage is tried, in total: TORCH_PJRT_TEST_DAMAGES, else few.
int times() {
  const char* given = std::getenv("TORCH_PJRT_TEST_DAMAGES");
  return given ? std::stoi(given) : 100;
}

// x + y for two f32[rows,16].
Graph add_graph(int64_t rows) {
  return axpy_graph(rows, Scalar::constant(ScalarKind::kInt, Number::of_int(1)));
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DamageTest : public testing::Test {
 protected:
  static constexpr int kPrograms = 2;

  DamageTest() : control_(FAKE_PLUGIN) {
    std::string name = testing::TempDir() + "damage_test-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~DamageTest() override { fs::remove_all(folder_); }

  // One call of each program as a process of its own makes it: how each was found.
  std::vector<run::Origin> start() {
    Runtime& runtime = lasting_runtime({cache::Disk::Options{folder_ / "cache", 1 << 20}});
    std::vector<run::Origin> origins;
    for (int64_t rows = 1; rows <= kPrograms; ++rows) {
      Program program(add_graph(rows), runtime, {FAKE_PLUGIN, {}});
      const pjrt::HostArray memory(3 * kPrograms * 64);
      const Dims dims = {rows, 16};
      const Dims strides = {16, 1};
      const auto at = [&](int i) { return memory.data() + 64 * kPrograms * i; };
      const std::vector<Argument> arguments = {{true, {at(0), DType::kF32, dims, strides}, 0},
                                               {true, {at(1), DType::kF32, dims, strides}, 0}};
      run::NoLock lock;
      const auto found = program.find(arguments, lower::Precision::kHighest, lock);
      const std::vector<void*> outputs = {at(2)};
      program.run(found, arguments, program.symbols(*found.entry, arguments), outputs, lock);
      origins.push_back(found.origin);
    }
    faults_ = runtime.stats().snapshot().disk_faults;
    return origins;
  }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> paths;
    for (const auto& file : fs::directory_iterator(folder_ / "cache")) paths.push_back(file.path());
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  // Does one thing to the first file; the second may be part of it.
  void damage(const fs::path& path, const fs::path& other) {
    std::string bytes = content(path);
    const size_t at = random_() % bytes.size();
    switch (random_() % 9) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random_() % 8)));
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.clear();
        break;
      case 3:
        bytes += bytes.substr(at);
        break;
      case 4:  // two parts in each other's place
        std::rotate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
        if (at == 0) bytes.pop_back();
        break;
      case 5:
        fs::copy_file(other, path, fs::copy_options::overwrite_existing);
        return;
      case 6:
        ASSERT_EQ(chmod(path.c_str(), 0622), 0);
        return;
      case 7:  // who may, gives it to somebody else
        if (geteuid() != 0) return damage(path, other);
        ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
        return;
      default:
        fs::rename(path, folder_ / "elsewhere");
        fs::create_symlink(folder_ / "elsewhere", path);
        return;
    }
    std::ofstream(path, std::ios::binary) << bytes;
  }

  pjrt::FakeControl control_;
  fs::path folder_;
  int64_t faults_ = 0;
  std::mt19937 random_{1};
};

TEST_F(DamageTest, IsFoundCountedAndRepaired) {
  const std::vector<run::Origin> all_compiled(kPrograms, run::Origin::kCompiled);
  const std::vector<run::Origin> all_loaded(kPrograms, run::Origin::kDisk);
  ASSERT_EQ(start(), all_compiled);
  const std::vector<fs::path> paths = entries();
  ASSERT_EQ(paths.size(), size_t{kPrograms});
  std::vector<std::string> good;
  for (const fs::path& path : paths) good.push_back(content(path));
  for (int i = 0; i < times(); ++i) {
    const size_t victim = i % kPrograms;
    damage(paths[victim], paths[1 - victim]);
    const std::vector<run::Origin> origins = start();
    ASSERT_EQ(std::count(origins.begin(), origins.end(), run::Origin::kCompiled), 1) << i;
    ASSERT_EQ(faults_, 1) << i;
    for (size_t p = 0; p < paths.size(); ++p) ASSERT_EQ(content(paths[p]), good[p]) << i;
    ASSERT_TRUE(fs::is_regular_file(fs::symlink_status(paths[victim]))) << i;
    if (i % 10 == 0) {
      ASSERT_EQ(start(), all_loaded);
    }
  }
}

}  // namespace
}  // namespace torch_pjrt::compile
