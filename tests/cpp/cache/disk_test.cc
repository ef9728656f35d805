#include "cache/disk.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

namespace torch_pjrt::cache {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

Key key(int64_t number) {
  Key k;
  k.add("number", number);
  return k;
}

class DiskTest : public testing::Test {
 protected:
  DiskTest() {
    std::string name = fs::temp_directory_path() / "disk_test-XXXXXX";
    parent_ = mkdtemp(name.data());
  }
  ~DiskTest() override { fs::remove_all(parent_); }

  std::string folder() const { return parent_ / "cache"; }
  Disk disk(int64_t max_bytes = 1 << 20) {
    return {{folder(), max_bytes}, [this](Fault kind, const std::string& text, bool is_first) {
              faults_.push_back(kind);
              texts_.push_back(text);
              firsts_ += is_first;
            }};
  }

  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void set_content(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static mode_t mode(const std::string& path) {
    struct stat status = {};
    stat(path.c_str(), &status);
    return status.st_mode & 0777;
  }

  fs::path parent_;
  std::vector<Fault> faults_;
  std::vector<std::string> texts_;
  int firsts_ = 0;
};

TEST_F(DiskTest, GivesBackWhatWasWritten) {
  const std::string value("a\0b", 3);
  disk().write(key(1), value);
  EXPECT_EQ(disk().read(key(1)), value);
  EXPECT_EQ(disk().read(key(2)), std::nullopt);
  disk().write(key(1), "");
  EXPECT_EQ(disk().read(key(1)), "");
  EXPECT_TRUE(faults_.empty());
  disk().refuse(key(1), "why");
  EXPECT_EQ(disk().read(key(1)), std::nullopt);
  EXPECT_EQ(faults_, std::vector<Fault>{Fault::kDamaged});
}

TEST_F(DiskTest, IsForTheUserAlone) {
  disk().write(key(1), "value");
  EXPECT_EQ(mode(folder()), 0700);
  EXPECT_EQ(mode(disk().path(key(1))), 0600);
}

TEST_F(DiskTest, ComparesTheWholeKey) {
  disk().write(key(1), "value");
  fs::rename(disk().path(key(1)), disk().path(key(2)));  // as if their hashes were equal
  EXPECT_EQ(disk().read(key(2)), std::nullopt);
  EXPECT_EQ(faults_, std::vector<Fault>{Fault::kDamaged});
}

TEST_F(DiskTest, DamageIsFoundAndRepaired) {
  const std::string value(300, 'v');
  Disk used = disk();
  used.write(key(1), value);
  const std::string path = used.path(key(1));
  const std::string good = content(path);
  std::mt19937 random(1);
  constexpr int kTimes = 2000;
  for (int i = 0; i < kTimes; ++i) {
    std::string bad = good;
    const size_t at = random() % bad.size();
    switch (i % 4) {
      case 0:
        bad[at] = static_cast<char>(bad[at] ^ (1 << (random() % 8)));
        break;
      case 1:
        bad.resize(at);
        break;
      case 2:
        bad += "more";
        break;
      default:
        std::swap(bad[at], bad[random() % bad.size()]);
    }
    if (bad == good) bad.clear();
    set_content(path, bad);
    ASSERT_EQ(used.read(key(1)), std::nullopt) << "damage " << i;
  }
  EXPECT_EQ(faults_, std::vector<Fault>(kTimes, Fault::kDamaged));
  EXPECT_EQ(firsts_, 1);
  used.write(key(1), value);
  EXPECT_EQ(used.read(key(1)), value);
}

TEST_F(DiskTest, WhatOthersCouldHaveWrittenIsRefused) {
  disk().write(key(1), "value");
  const std::string path = disk().path(key(1));
  chmod(path.c_str(), 0620);
  EXPECT_EQ(disk().read(key(1)), std::nullopt);
  chmod(path.c_str(), 0600);
  chmod(folder().c_str(), 0777);
  EXPECT_EQ(disk().read(key(1)), std::nullopt);
  disk().write(key(2), "value");
  EXPECT_FALSE(fs::exists(disk().path(key(2))));
  chmod(folder().c_str(), 0700);
  EXPECT_EQ(disk().read(key(1)), "value");
  fs::rename(path, path + ".elsewhere");
  fs::create_symlink(path + ".elsewhere", path);
  EXPECT_EQ(disk().read(key(1)), std::nullopt);
  EXPECT_EQ(faults_, std::vector<Fault>(4, Fault::kUnsafe));
  EXPECT_NE(texts_[1].find("chmod it to 0700"), std::string::npos);
  if (geteuid() == 0) {  // who alone can give files away
    fs::remove(path);
    fs::rename(path + ".elsewhere", path);
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    EXPECT_EQ(disk().read(key(1)), std::nullopt);
    EXPECT_EQ(faults_.back(), Fault::kUnsafe);
  }
}

TEST_F(DiskTest, OddThingsInAnEntrysPlaceAreRefused) {
  disk().write(key(1), "value");
  const std::string path = disk().path(key(1));
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // must not be waited for
  EXPECT_EQ(disk().read(key(1)), std::nullopt);
  fs::remove(path);
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all);
  EXPECT_EQ(disk().read(key(1)), std::nullopt);
  EXPECT_EQ(faults_, std::vector<Fault>(2, Fault::kUnsafe));
}

TEST_F(DiskTest, AFolderThatCannotBeMadeIsAFaultOnly) {
  set_content(folder(), "a file");
  Disk used = disk();
  used.write(key(1), "value");
  used.write(key(1), "value");
  EXPECT_EQ(used.read(key(1)), std::nullopt);
  EXPECT_GE(faults_.size(), 2u);
  EXPECT_EQ(content(folder()), "a file");
}

TEST_F(DiskTest, TheLeastRecentlyUsedGoFirst) {
  const std::string value(1000, 'v');
  Disk used = disk(3500);
  for (int64_t k = 0; k < 3; ++k) {
    used.write(key(k), value);
    fs::last_write_time(used.path(key(k)), fs::file_time_type::clock::now() - 10min + k * 1min);
  }
  EXPECT_TRUE(used.read(key(0)));
  used.write(key(3), value);
  EXPECT_TRUE(used.read(key(0)));
  EXPECT_FALSE(used.read(key(1)));
  EXPECT_TRUE(used.read(key(2)));
  EXPECT_TRUE(used.read(key(3)));
  used.write(key(4), std::string(4000, 'v'));  // more than all may have
  EXPECT_FALSE(used.read(key(4)));
  EXPECT_TRUE(used.read(key(3)));
  EXPECT_TRUE(faults_.empty());
}

TEST_F(DiskTest, WhatAStoppedProcessLeftIsRemovedLater) {
  disk().write(key(1), "value");
  const std::string old = folder() + "/.unfinished-abc";
  const std::string young = folder() + "/.unfinished-def";
  set_content(old, "half");
  set_content(young, "half");
  fs::last_write_time(old, fs::file_time_type::clock::now() - 2h);
  disk().write(key(2), "value");
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
}

TEST_F(DiskTest, ManyMayReadAndWriteAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Disk used({folder(), 3000}, [&](Fault, const std::string&, bool) { ++wrong; });
      for (int i = 0; i < 12; ++i) {
        const std::string value(500, static_cast<char>('0' + i % 8));
        used.write(key(i % 8), value);
        const auto found = used.read(key((i + t) % 8));
        if (found && *found != std::string(500, static_cast<char>('0' + (i + t) % 8))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace torch_pjrt::cache
