#include "run/excess.h"

#include "base/memory.h"

namespace torch_pjrt::run {

void Excess::release() {
  const int64_t held = resident_bytes();
  const int64_t normal = normal_.load(std::memory_order_relaxed);
  if (normal == kUnknown) return normal_.store(held, std::memory_order_relaxed);
  const int64_t excess = held - normal;
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> wait(static_cast<double>(excess) / kBytesPerSecond);
  if (excess <= kAllowed || now - last_.load(std::memory_order_relaxed) < wait) return;
  release_free_memory();
  last_.store(now, std::memory_order_relaxed);
  normal_.store(kUnknown, std::memory_order_relaxed);
}

}  // namespace torch_pjrt::run
