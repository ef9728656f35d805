// Processes that are killed while they write, disks that are full, folders that can't be written
// to.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "cache/disk.h"

namespace torch_pjrt::cache {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

Key key(int64_t number) {
  Key k;
  k.add("number", number);
  return k;
}

class DiskFaultsTest : public testing::Test {
 protected:
  DiskFaultsTest() {
    std::string name = fs::temp_directory_path() / "faults_test-XXXXXX";
    parent_ = mkdtemp(name.data());
  }
  ~DiskFaultsTest() override { fs::remove_all(parent_); }

  std::string folder() const { return parent_ / "cache"; }
  Disk disk(int64_t max_bytes = 1 << 24) {
    return {{folder(), max_bytes}, [this](Fault kind, const std::string& text, bool) {
              faults_.push_back(kind);
              texts_.push_back(text);
            }};
  }

  fs::path parent_;
  std::vector<Fault> faults_;
  std::vector<std::string> texts_;
};

constexpr int64_t kKeys = 4;

// Tells its key and how often it was written, and is long enough to be cut anywhere.
std::string value(int64_t k, int64_t version) {
  return std::string(60'000, static_cast<char>('a' + k)) + std::to_string(version);
}

[[noreturn]] void write_until_killed(Disk used) {
  for (int64_t i = 0;; ++i) used.write(key(i % kKeys), value(i % kKeys, i));
}

TEST_F(DiskFaultsTest, WhoIsKilledWhileWritingLeavesNoHalfEntry) {
  std::mt19937 random(1);
  int64_t read = 0;
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) write_until_killed(disk());
    ASSERT_GT(child, 0);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    for (int64_t k = 0; k < kKeys; ++k) {
      const auto found = disk().read(key(k));
      if (!found) continue;
      ++read;
      ASSERT_GT(found->size(), 60'000u);
      const int64_t version = std::stoll(found->substr(60'000));
      ASSERT_EQ(*found, value(k, version)) << "after " << i << " processes";
      ASSERT_EQ(version % kKeys, k);
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_TRUE(faults_.empty());
  // Some were killed in the middle; what they left goes in time, and hinders nobody.
  disk().write(key(9), "value");
  EXPECT_EQ(disk().read(key(9)), "value");
}

// A limit on the size of files, under which writing fails as on a full disk.
TEST_F(DiskFaultsTest, ADiskThatIsFullIsAFaultOnly) {
  disk().write(key(0), "old");
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  Disk used = disk();
  used.write(key(0), value(0, 1));
  used.write(key(1), value(1, 1));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(faults_, std::vector<Fault>(2, Fault::kWrite));
  EXPECT_NE(texts_.at(0).find("free space there"), std::string::npos);
  EXPECT_EQ(used.read(key(0)), "old");
  EXPECT_EQ(used.read(key(1)), std::nullopt);
  const auto files = std::distance(fs::directory_iterator(folder()), fs::directory_iterator());
  EXPECT_EQ(files, 1) << "what couldn't be finished is removed";
  used.write(key(1), value(1, 1));
  EXPECT_EQ(used.read(key(1)), value(1, 1));
}

// A small file system of its own, where the process may mount one.
class MountedTest : public DiskFaultsTest {
 protected:
  void SetUp() override {
    fs::create_directory(folder());
    fs::permissions(folder(), fs::perms::owner_all);
    if (mount("tmpfs", folder().c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) {
      GTEST_SKIP() << "mounting needs root";
    }
    is_mounted_ = true;
  }
  ~MountedTest() override {
    if (is_mounted_) umount(folder().c_str());
  }
  bool is_mounted_ = false;
};

TEST_F(MountedTest, NoSpaceIsAFaultOnly) {
  Disk used = disk();
  used.write(key(0), std::string(30'000, 'v'));
  used.write(key(1), std::string(60'000, 'w'));
  EXPECT_EQ(faults_, std::vector<Fault>{Fault::kWrite});
  EXPECT_NE(texts_.at(0).find("No space left"), std::string::npos);
  EXPECT_EQ(used.read(key(0)), std::string(30'000, 'v'));
  EXPECT_EQ(used.read(key(1)), std::nullopt);
  used.write(key(2), "small");
  EXPECT_EQ(used.read(key(2)), "small");
}

TEST_F(MountedTest, AReadOnlyFolderIsReadAndNotWritten) {
  disk().write(key(0), "value");
  ASSERT_EQ(mount("", folder().c_str(), "", MS_REMOUNT | MS_RDONLY, nullptr), 0);
  Disk used = disk();
  EXPECT_EQ(used.read(key(0)), "value");
  EXPECT_TRUE(faults_.empty());
  used.write(key(1), "value");
  used.refuse(key(0), "why");
  EXPECT_EQ(faults_, (std::vector<Fault>{Fault::kWrite, Fault::kDamaged}));
  EXPECT_NE(texts_.at(0).find("Read-only file system"), std::string::npos);
}

class SharedTest : public DiskFaultsTest {
 protected:
  std::string shared() const { return parent_ / "shared"; }
  Disk with_shared() {
    return {{folder(), 1 << 24, shared()}, [this](Fault kind, const std::string& text, bool) {
              faults_.push_back(kind);
              texts_.push_back(text);
            }};
  }
  void share(int64_t k, const std::string& text) const {
    Disk({shared(), 1 << 24}, {}).write(key(k), text);
  }
};

TEST_F(SharedTest, IsLookedAtSecondAndNeverWritten) {
  share(1, "theirs");
  share(2, "theirs");
  Disk used = with_shared();
  used.write(key(1), "mine");
  used.write(key(3), "mine");
  const auto time = fs::last_write_time(Disk({shared(), 0}, {}).path(key(2)));
  EXPECT_EQ(used.read(key(1)), "mine");
  EXPECT_EQ(used.read(key(2)), "theirs");
  EXPECT_EQ(used.read(key(3)), "mine");
  EXPECT_EQ(used.read(key(4)), std::nullopt);
  EXPECT_TRUE(faults_.empty());
  EXPECT_FALSE(fs::exists(used.path(key(2)))) << "not copied";
  used.refuse(key(2), "why");
  EXPECT_EQ(used.read(key(2)), "theirs");
  EXPECT_NE(texts_.at(0).find(shared()), std::string::npos);
  EXPECT_EQ(fs::last_write_time(Disk({shared(), 0}, {}).path(key(2))), time);
}

TEST_F(SharedTest, IsTrustedNoMoreThanTheOwnOne) {
  share(1, "theirs");
  fs::permissions(shared(), fs::perms::all);
  EXPECT_EQ(with_shared().read(key(1)), std::nullopt);
  fs::permissions(shared(), fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec);
  EXPECT_EQ(with_shared().read(key(1)), "theirs") << "others may read it";
  EXPECT_EQ(faults_, std::vector<Fault>{Fault::kUnsafe});
}

TEST_F(SharedTest, OneThatIsntThereIsSaid) {
  EXPECT_EQ(with_shared().read(key(1)), std::nullopt);
  EXPECT_EQ(faults_, std::vector<Fault>{Fault::kRead});
}

}  // namespace
}  // namespace torch_pjrt::cache
