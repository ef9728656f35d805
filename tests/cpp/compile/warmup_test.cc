#include "compile/warmup.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace torch_pjrt::compile {
namespace {

using namespace std::chrono_literals;

TEST(Warmup, RunsAllOnSoManyThreadsAtMost) {
  Warmup warmup(3);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  for (int i = 0; i < 20; ++i) {
    warmup.run([&] {
      const int now = ++running;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::sleep_for(1ms);
      --running;
    });
  }
  EXPECT_TRUE(warmup.wait(20s));
  EXPECT_EQ(warmup.num_queued(), 20u);
  EXPECT_EQ(warmup.num_done(), 20u);
  EXPECT_LE(most, 3);
}

TEST(Warmup, KeepsTheFirstErrorAndGoesOn) {
  Warmup warmup(1);
  warmup.check();
  std::atomic<int> ran = 0;
  for (const char* what : {"first", "second"}) {
    warmup.run([&, make = warmup.supervised([&, what] {
      ++ran;
      throw std::runtime_error(what);
    })] { EXPECT_THROW(make(), std::runtime_error); });
  }
  EXPECT_TRUE(warmup.wait(20s));
  EXPECT_EQ(ran, 2);
  try {
    warmup.check();
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
}

TEST(Warmup, WhatHasNotStartedIsCancelled) {
  Warmup warmup(1);
  const auto make = warmup.supervised([] { return 7; });
  EXPECT_EQ(make(), 7);
  warmup.cancel();
  EXPECT_THROW(make(), Warmup::Cancelled);
  warmup.check();
}

}  // namespace
}  // namespace torch_pjrt::compile
