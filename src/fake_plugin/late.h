// Executions that end some time after their call: a thread of the client's completes them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "fake_plugin/event.h"

namespace torch_pjrt::fake {

// Any thread may use it.
class LateEnds {
 public:
  explicit LateEnds(int64_t delay_ms);
  ~LateEnds();  // completes what is left
  LateEnds(const LateEnds&) = delete;
  LateEnds& operator=(const LateEnds&) = delete;

  // Of an execution that begins now.
  std::shared_ptr<Completion> begin();

  // Executions of all clients that have begun and not ended.
  static int64_t running();

 private:
  using Clock = std::chrono::steady_clock;
  void run();

  const std::chrono::milliseconds delay_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Clock::time_point, std::shared_ptr<Completion>>> waiting_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace torch_pjrt::fake
