#include "run/excess.h"

#include "base/memory.h"

namespace torch_pjrt::run {

void Excess::release() {
  const int64_t held = resident_bytes();
  const int64_t limit = limit_.load(std::memory_order_relaxed);
  if (limit == kUnknown) return limit_.store(held + kAllowed, std::memory_order_relaxed);
  const Clock::time_point now = Clock::now();
  if (held <= limit || now - last_.load(std::memory_order_relaxed) < kInterval) return;
  release_free_memory();
  last_.store(now, std::memory_order_relaxed);
  limit_.store(kUnknown, std::memory_order_relaxed);
}

}  // namespace torch_pjrt::run
