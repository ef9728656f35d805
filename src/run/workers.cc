#include "run/workers.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

namespace torch_pjrt::run {

struct Workers::Job {
  Job(size_t count, const std::function<void(size_t)>& task) : count(count), task(task) {}

  // Does what nobody has begun.
  void help() {
    for (size_t k = next++; k < count; k = next++) {
      task(k);
      if (++done == count) done.notify_all();
    }
  }
  void wait() const {
    for (size_t n = done; n < count; n = done) done.wait(n);
  }

  const size_t count;
  const std::function<void(size_t)>& task;  // the caller's, who waits for all that was begun
  std::atomic<size_t> next = 0;
  std::atomic<size_t> done = 0;
};

Workers::Workers(std::function<int()> num_threads) : num_threads_(std::move(num_threads)) {}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  news_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::start(size_t threads) {
  try {
    while (threads_.size() < threads) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    return;  // the system has no more: those that there are do it
  }
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (ends_) return;
    const std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job->help();
    lock.lock();
  }
}

void Workers::run(size_t count, const std::function<void(size_t)>& task) {
  const size_t threads = std::min(count, static_cast<size_t>(std::max(1, num_threads_())));
  if (threads <= 1) {
    for (size_t k = 0; k < count; ++k) task(k);
    return;
  }
  const auto job = std::make_shared<Job>(count, task);
  {
    const std::lock_guard lock(mutex_);
    start(threads - 1);
    jobs_.insert(jobs_.end(), threads - 1, job);
  }
  news_.notify_all();
  job->help();
  job->wait();
}

}  // namespace torch_pjrt::run
