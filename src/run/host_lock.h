// The lock of the language that calls us (Python's GIL), as the core sees it.
#pragma once

namespace torch_pjrt::run {

// Held when a call begins and when it ends; used by the calling thread only.
class HostLock {
 public:
  virtual ~HostLock() = default;
  virtual void release() noexcept = 0;  // no effect if it isn't held
  virtual void acquire() noexcept = 0;  // no effect if it's held
  // Lets the language answer signals during a long wait; throws, with the lock held, to give the
  // call up. Otherwise leaves the lock as it was.
  virtual void check_interrupt() = 0;
};

// For callers without such a lock.
class NoLock final : public HostLock {
 public:
  void release() noexcept override {}
  void acquire() noexcept override {}
  void check_interrupt() override {}
};

// Holds the lock again at the end of the scope.
class Reacquire {
 public:
  explicit Reacquire(HostLock& lock) : lock_(lock) {}
  Reacquire(const Reacquire&) = delete;
  Reacquire& operator=(const Reacquire&) = delete;
  ~Reacquire() { lock_.acquire(); }

 private:
  HostLock& lock_;
};

}  // namespace torch_pjrt::run
