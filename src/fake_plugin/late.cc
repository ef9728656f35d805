#include "fake_plugin/late.h"

#include <atomic>

namespace torch_pjrt::fake {
namespace {

std::atomic<int64_t> running_now = 0;

}  // namespace

LateEnds::LateEnds(int64_t delay_ms) : delay_(delay_ms), thread_([this] { run(); }) {}

LateEnds::~LateEnds() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<Completion> LateEnds::begin() {
  auto completion = std::make_shared<Completion>();
  ++running_now;
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(Clock::now() + delay_, completion);
  }
  changed_.notify_all();
  return completion;
}

int64_t LateEnds::running() { return running_now; }

void LateEnds::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const auto [end, completion] = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.wait_until(lock, end, [this] { return closing_; });
    lock.unlock();
    --running_now;
    completion->set();
    lock.lock();
  }
}

}  // namespace torch_pjrt::fake
