#include "pjrt/event.h"

#include <chrono>

namespace torch_pjrt::pjrt {
namespace {

// Tells the processor that this is a spin: the other hyper-thread gets the core meanwhile.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool Event::is_ready() const {
  if (!event_) return true;
  return event_.get_deleter().api.call<&PJRT_Api::PJRT_Event_IsReady>({.event = get()}).is_ready;
}

bool Event::poll(int64_t spin_us) const {
  if (is_ready()) return true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_us);
  while (std::chrono::steady_clock::now() < end) {
    relax();
    if (is_ready()) return true;
  }
  return false;
}

void Event::await() const {
  if (!event_) return;
  event_.get_deleter().api.call<&PJRT_Api::PJRT_Event_Await>({.event = get()});
}

void Event::wait(int64_t spin_us) const {
  poll(spin_us);
  // Also when it is complete: this is where its error is found.
  await();
}

}  // namespace torch_pjrt::pjrt
