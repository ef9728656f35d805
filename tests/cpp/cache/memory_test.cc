#include "cache/memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace torch_pjrt::cache {
namespace {

using namespace std::chrono_literals;

Key key(int64_t number) {
  Key k;
  k.add("number", number);
  return k;
}

void run_here(const std::function<void()>& task) { task(); }

TEST(Memory, MakesOnePerKeyHoweverManyThreadsAsk) {
  Memory<int> memory;
  std::atomic<int> made = 0;
  std::atomic<int> started = 0;
  std::vector<std::shared_ptr<int>> values(8);
  std::vector<std::thread> threads;
  for (auto& value : values) {
    threads.emplace_back([&] {
      const auto found = memory.find_or_make(
          key(1),
          [&] {
            std::this_thread::sleep_for(20ms);
            return std::make_shared<int>(++made);
          },
          run_here);
      started += found.started;
      value = found.value.get();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(started, 1);
  for (const auto& value : values) EXPECT_EQ(value, values[0]);
}

TEST(Memory, KeysAreApart) {
  Memory<int> memory;
  for (int64_t k = 0; k < 3; ++k) {
    const auto found =
        memory.find_or_make(key(k), [&] { return std::make_shared<int>(k); }, run_here);
    EXPECT_TRUE(found.started);
    EXPECT_EQ(*found.value.get(), k);
  }
  EXPECT_EQ(memory.size(), 3);
}

TEST(Memory, AFailureReachesAllWhoWaitAndIsForgotten) {
  Memory<int> memory;
  std::atomic<int> attempts = 0;
  std::atomic<int> waiting = 0;
  const auto fail = [&]() -> std::shared_ptr<int> {
    ++attempts;
    while (waiting < 8) std::this_thread::yield();
    throw std::runtime_error("no");
  };
  std::vector<std::shared_future<std::shared_ptr<int>>> values;
  std::thread worker;
  const auto run_apart = [&](std::function<void()> task) { worker = std::thread(std::move(task)); };
  for (int i = 0; i < 8; ++i) {
    values.push_back(memory.find_or_make(key(1), fail, run_apart).value);
    ++waiting;
  }
  for (const auto& value : values) EXPECT_THROW(value.get(), std::runtime_error);
  worker.join();
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(memory.size(), 0);

  const auto again = memory.find_or_make(key(1), [] { return std::make_shared<int>(5); }, run_here);
  EXPECT_TRUE(again.started);
  EXPECT_EQ(*again.value.get(), 5);
}

TEST(Memory, AnErrorOfTheRunnerIsForgottenToo) {
  Memory<int> memory;
  const auto found = memory.find_or_make(
      key(1), [] { return std::make_shared<int>(5); },
      [](const std::function<void()>&) { throw std::runtime_error("no thread"); });
  EXPECT_THROW(found.value.get(), std::runtime_error);
  EXPECT_EQ(memory.size(), 0);
}

}  // namespace
}  // namespace torch_pjrt::cache
