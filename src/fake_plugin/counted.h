// A base that counts the living objects of each kind.
#pragma once

#include <atomic>
#include <cstdint>

namespace torch_pjrt::fake {

template <class Kind>
class Counted {
 public:
  Counted() { ++live_; }
  ~Counted() { --live_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  static int64_t live() { return live_; }

 private:
  static inline std::atomic<int64_t> live_{0};
};

}  // namespace torch_pjrt::fake
