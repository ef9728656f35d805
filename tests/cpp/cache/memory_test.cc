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

struct Number : Cached {
  explicit Number(int64_t n, int64_t bytes = 0) : n(n) { num_bytes = bytes; }
  int64_t n;
};

Key key(int64_t number) {
  Key k;
  k.add("number", number);
  return k;
}

void run_here(const std::function<void()>& task) { task(); }

TEST(Memory, MakesOnePerKeyHoweverManyThreadsAsk) {
  Memory<Number> memory;
  std::atomic<int> made = 0;
  std::atomic<int> started = 0;
  std::vector<std::shared_ptr<Number>> values(8);
  std::vector<std::thread> threads;
  for (auto& value : values) {
    threads.emplace_back([&] {
      const auto found = memory.find_or_make(
          key(1),
          [&] {
            std::this_thread::sleep_for(20ms);
            return std::make_shared<Number>(++made);
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
  Memory<Number> memory;
  for (int64_t k = 0; k < 3; ++k) {
    const auto found =
        memory.find_or_make(key(k), [&] { return std::make_shared<Number>(k); }, run_here);
    EXPECT_TRUE(found.started);
    EXPECT_EQ(found.value.get()->n, k);
  }
  EXPECT_EQ(memory.size(), 3);
}

TEST(Memory, AFailureReachesAllWhoWaitAndIsForgotten) {
  Memory<Number> memory;
  std::atomic<int> attempts = 0;
  std::atomic<int> waiting = 0;
  const auto fail = [&]() -> std::shared_ptr<Number> {
    ++attempts;
    while (waiting < 8) std::this_thread::yield();
    throw std::runtime_error("no");
  };
  std::vector<std::shared_future<std::shared_ptr<Number>>> values;
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

  const auto again =
      memory.find_or_make(key(1), [] { return std::make_shared<Number>(5); }, run_here);
  EXPECT_TRUE(again.started);
  EXPECT_EQ(again.value.get()->n, 5);
}

TEST(Memory, AnErrorOfTheRunnerIsForgottenToo) {
  Memory<Number> memory;
  const auto found = memory.find_or_make(
      key(1), [] { return std::make_shared<Number>(5); },
      [](const std::function<void()>&) { throw std::runtime_error("no thread"); });
  EXPECT_THROW(found.value.get(), std::runtime_error);
  EXPECT_EQ(memory.size(), 0);
}

std::shared_ptr<Number> get(Memory<Number>& memory, int64_t number, int64_t bytes) {
  return memory
      .find_or_make(
          key(number), [&] { return std::make_shared<Number>(number, bytes); }, run_here)
      .value.get();
}

TEST(Memory, GivesUpWhatWasUsedLongestAgo) {
  std::vector<int64_t> gone;
  Memory<Number> memory(100, [&](const std::vector<std::shared_ptr<Number>>& evicted) {
    for (const auto& value : evicted) gone.push_back(value->n);
  });
  const auto first = get(memory, 1, 40);
  get(memory, 2, 40);
  memory.touch(*first);
  get(memory, 3, 40);
  EXPECT_EQ(gone, std::vector<int64_t>{2});
  EXPECT_EQ(memory.num_bytes(), 80);
  EXPECT_EQ(memory.size(), 2);
  EXPECT_FALSE(memory.find_ready(key(2)));
  EXPECT_EQ(memory.find_ready(key(1)), first);
  EXPECT_FALSE(first->is_evicted);
}

TEST(Memory, TheValueUsedLastStaysHoweverLarge) {
  std::vector<int64_t> gone;
  Memory<Number> memory(100, [&](const std::vector<std::shared_ptr<Number>>& evicted) {
    for (const auto& value : evicted) gone.push_back(value->n);
  });
  const auto large = get(memory, 1, 1000);
  EXPECT_FALSE(large->is_evicted);
  EXPECT_EQ(memory.num_bytes(), 1000);
  get(memory, 2, 1);
  EXPECT_TRUE(large->is_evicted);
  EXPECT_EQ(gone, std::vector<int64_t>{1});
  get(memory, 3, 90);
  memory.set_max_bytes(0);
  EXPECT_EQ(gone, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(memory.size(), 1);
}

TEST(Memory, WhatIsEvictedIsMadeAgain) {
  Memory<Number> memory(0);
  const auto first = get(memory, 1, 10);
  get(memory, 2, 10);
  const auto again = get(memory, 1, 10);
  EXPECT_NE(again, first);
  EXPECT_EQ(memory.size(), 1);
}

TEST(Memory, WhatIsInTheMakingIsNotReady) {
  Memory<Number> memory;
  std::function<void()> later;
  memory.find_or_make(
      key(1), [] { return std::make_shared<Number>(1); },
      [&](std::function<void()> task) { later = std::move(task); });
  EXPECT_FALSE(memory.find_ready(key(1)));
  later();
  EXPECT_EQ(memory.find_ready(key(1))->n, 1);
}

}  // namespace
}  // namespace torch_pjrt::cache
