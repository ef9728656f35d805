#include "run/content.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace torch_pjrt::run {
namespace {

TEST(WorkersTest, EachTaskIsDoneOnce) {
  for (const int threads : {1, 2, 5}) {
    Workers workers([=] { return threads; });
    for (const size_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> done(count);
      workers.run(count, [&](size_t k) { ++done[k]; });
      for (const auto& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(WorkersTest, NoMoreThreadsWorkThanMay) {
  int allowed = 4;
  Workers workers([&] { return allowed; });
  std::mutex mutex;
  std::set<std::thread::id> seen;
  const auto note = [&](size_t) {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  };
  workers.run(100, note);
  EXPECT_LE(seen.size(), 4u);
  seen.clear();
  allowed = 1;
  workers.run(100, note);
  EXPECT_EQ(seen, std::set{std::this_thread::get_id()});
}

TEST(WorkersTest, SeveralCallersAtOnce) {
  Workers workers([] { return 3; });
  std::atomic<int> done = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int n = 0; n < 50; ++n) workers.run(20, [&](size_t) { ++done; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(done, 4 * 50 * 20);
}

TEST(ContentTest, EveryByteCountsWhateverTheThreads) {
  // Several pieces, and an end that is no whole word.
  std::string memory(1'000'003, 'a');
  Workers one([] { return 1; });
  Workers four([] { return 4; });
  const auto hash_of = [&](Workers& workers) {
    const std::vector<std::string_view> all = {"", memory, "short"};
    return hashes(all, workers);
  };
  const auto before = hash_of(one);
  EXPECT_EQ(before.size(), 3u);
  EXPECT_EQ(hash_of(four), before);
  for (size_t at = 0; at < memory.size(); at += 4999) {
    memory[at] ^= 1;
    const auto after = hash_of(four);
    EXPECT_NE(after[1], before[1]) << at;
    EXPECT_EQ(after[0], before[0]);
    EXPECT_EQ(after[2], before[2]);
    memory[at] ^= 1;
  }
  memory.back() ^= 1;
  EXPECT_NE(hash_of(one)[1], before[1]);
}

TEST(ContentTest, PiecesThatChangePlacesAreSeen) {
  std::string memory = std::string(1 << 18, 'a') + std::string(1 << 18, 'b');
  Workers one([] { return 1; });
  const auto hash_of = [&] { return hashes(std::vector<std::string_view>{memory}, one)[0]; };
  const uint64_t before = hash_of();
  std::ranges::reverse(memory);
  EXPECT_NE(hash_of(), before);
}

}  // namespace
}  // namespace torch_pjrt::run
