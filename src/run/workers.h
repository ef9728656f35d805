// Threads that share a call's work on much memory.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace torch_pjrt::run {

// Its threads sleep between uses, so that they take nothing from a plugin's. Any thread may use it.
class Workers {
 public:
  // `num_threads` says at each use how many may work, the caller among them.
  explicit Workers(std::function<int()> num_threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Calls task(0) to task(count - 1), each once, on the caller's thread and on others; returns when
  // all are done. `task` doesn't throw.
  void run(size_t count, const std::function<void(size_t)>& task);

 private:
  struct Job;
  void start(size_t threads);  // as many as there are to be
  void work();

  std::function<int()> num_threads_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::shared_ptr<Job>> jobs_;  // once for each thread that may help
  std::vector<std::thread> threads_;
  bool ends_ = false;
};

}  // namespace torch_pjrt::run
