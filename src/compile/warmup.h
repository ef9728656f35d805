// Compiles ahead of the calls that will need them, on a few threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace torch_pjrt::compile {

// Any thread may use it. What has started goes on when it ends.
class Warmup {
 public:
  // Of a task that cancel() reached before it started.
  struct Cancelled {};

  explicit Warmup(size_t workers) : state_(std::make_shared<State>()), workers_(workers) {}

  // A thread that has one compiles instead of running: each call ends when its program is queued.
  static Warmup* of_thread() { return of_thread_; }
  static void set_of_thread(Warmup* warmup) { of_thread_ = warmup; }

  using Task = std::function<void()>;
  // Runs the task, which throws nothing, when a worker is free.
  void run(Task task);
  // `make` as part of such a task: after cancel() it throws Cancelled instead, and its error is
  // kept. It may outlive this.
  template <class Make>
  auto supervised(Make make) const {
    return [state = state_, make = std::move(make)] {
      state->check_cancelled();
      try {
        return make();
      } catch (...) {
        state->keep_error(std::current_exception());
        throw;
      }
    };
  }
  void cancel();

  size_t num_queued() const;
  size_t num_done() const;
  // Whether all are done, after waiting so long at most.
  bool wait(std::chrono::milliseconds time) const;
  // Throws the first error of a task, if any.
  void check() const;

 private:
  struct State {
    mutable std::mutex mutex;
    mutable std::condition_variable changed;
    std::deque<Task> waiting;
    size_t running = 0;  // workers
    size_t queued = 0;   // tasks since the start
    size_t done = 0;
    bool is_cancelled = false;
    std::exception_ptr error;  // the first

    void check_cancelled() const;
    void keep_error(std::exception_ptr error);
  };
  static void work(const std::shared_ptr<State>& state);

  static thread_local Warmup* of_thread_;

  std::shared_ptr<State> state_;  // also of the workers
  size_t workers_;
};

}  // namespace torch_pjrt::compile
