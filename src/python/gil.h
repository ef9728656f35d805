// Python's lock, taken back only while there is an interpreter to return to.
#pragma once

#include <Python.h>

#include "run/host_lock.h"

namespace torch_pjrt::python {

// The GIL of a thread that has it, for the time of one call.
class Gil final : public run::HostLock {
 public:
  Gil() = default;
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;
  ~Gil() override { acquire(); }

  void release() noexcept override;
  void acquire() noexcept override;
  void check_interrupt() override;  // throws nb::python_error, e.g. for KeyboardInterrupt

 private:
  PyThreadState* state_ = nullptr;  // while it is released
};

// The GIL for a thread of ours that Python may not know; false while the interpreter ends.
class ThreadGil {
 public:
  ThreadGil();
  ThreadGil(const ThreadGil&) = delete;
  ThreadGil& operator=(const ThreadGil&) = delete;
  ~ThreadGil();
  explicit operator bool() const { return held_; }

 private:
  bool held_ = false;
  PyGILState_STATE state_ = PyGILState_UNLOCKED;
};

// Called once, at exit, by the main thread, with the GIL: from then on a call that returns on
// another thread parks for good. Taking the GIL during finalisation would end that thread by force,
// through frames of libtorch that can't be unwound, and abort the process.
void shut_down();

}  // namespace torch_pjrt::python
