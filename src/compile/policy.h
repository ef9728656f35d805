// What becomes of a call that needs a program which isn't there: the process's rule, and a
// thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace torch_pjrt::compile {

// Loading a program from disk is no compile.
enum class Policy : uint8_t {
  kAllow,  // it compiles
  kWarn,   // it compiles, and says so in the log
  kError,  // it raises Error(kNotCompiled)
};

// Any thread may use it.
class Policies {
 public:
  void set(Policy policy) { process_ = policy; }
  // The calling thread's own if it has one, else the process's.
  Policy current() const { return of_thread_.value_or(process_.load()); }

  // Gives the calling thread a policy of its own (nullopt: none); returns what it had.
  static std::optional<Policy> exchange_of_thread(std::optional<Policy> policy);

 private:
  static thread_local std::optional<Policy> of_thread_;

  std::atomic<Policy> process_ = Policy::kAllow;
};

}  // namespace torch_pjrt::compile
