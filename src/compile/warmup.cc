#include "compile/warmup.h"

#include <thread>
#include <utility>

namespace torch_pjrt::compile {

thread_local Warmup* Warmup::of_thread_ = nullptr;

void Warmup::run(Task task) {
  const std::lock_guard lock(state_->mutex);
  if (state_->running < workers_) {
    std::thread(work, state_).detach();
    ++state_->running;
  }
  state_->waiting.push_back(std::move(task));
  ++state_->queued;
}

void Warmup::work(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (!state->waiting.empty()) {
    {
      const Task task = std::move(state->waiting.front());
      state->waiting.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
    ++state->done;
    state->changed.notify_all();
  }
  --state->running;
}

void Warmup::State::check_cancelled() const {
  const std::lock_guard lock(mutex);
  if (is_cancelled) throw Cancelled();
}

void Warmup::State::keep_error(std::exception_ptr thrown) {
  const std::lock_guard lock(mutex);
  if (!error) error = std::move(thrown);
}

void Warmup::check() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->error) std::rethrow_exception(state_->error);
}

void Warmup::cancel() {
  const std::lock_guard lock(state_->mutex);
  state_->is_cancelled = true;
}

size_t Warmup::num_queued() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queued;
}

size_t Warmup::num_done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

bool Warmup::wait(std::chrono::milliseconds time) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, time, [&] { return state_->done == state_->queued; });
}

}  // namespace torch_pjrt::compile
