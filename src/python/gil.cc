#include "python/gil.h"

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace torch_pjrt::python {
namespace {

using namespace std::chrono_literals;

std::atomic<bool> closing = false;
std::atomic<int> entering = 0;  // threads between their look at `closing` and having the GIL
std::thread::id main_thread;    // written before `closing`

// Whether this thread may take the GIL; if so, leave() follows.
bool enter() {
  ++entering;
  if (!closing || std::this_thread::get_id() == main_thread) return true;
  --entering;
  return false;
}

void leave() { --entering; }

}  // namespace

void Gil::release() noexcept {
  if (!state_) state_ = PyEval_SaveThread();
}

void Gil::acquire() noexcept {
  if (!state_) return;
  if (!enter()) {
    while (true) pause();
  }
  PyEval_RestoreThread(state_);
  leave();
  state_ = nullptr;
}

void Gil::check_interrupt() {
  const bool was_released = state_ != nullptr;
  acquire();
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  if (was_released) release();
}

ThreadGil::ThreadGil() {
  if (!enter()) return;
  state_ = PyGILState_Ensure();
  leave();
  held_ = true;
}

ThreadGil::~ThreadGil() {
  if (held_) PyGILState_Release(state_);
}

void shut_down() {
  main_thread = std::this_thread::get_id();
  closing = true;
  const nanobind::gil_scoped_release released;
  for (int i = 0; i < 200 && entering > 0; ++i) std::this_thread::sleep_for(1ms);
}

}  // namespace torch_pjrt::python
