// The completion of something that the plugin does on its own time.
#pragma once

#include <cstdint>
#include <memory>

#include "pjrt/api.h"

namespace torch_pjrt::pjrt {

// Move-only. Any thread may wait on it; it is destroyed by one, when no other uses it. Destroying
// it waits for nothing.
class Event {
 public:
  // Takes ownership; a null event counts as complete.
  Event(Api api, PJRT_Event* event) : event_(event, {api}) {}

  // Whether it is complete, with or without an error.
  bool is_ready() const;

  // Polls until it is complete or `spin_us` have passed; whether it is complete. An Await that has
  // to sleep costs two thread wake-ups, which is more than most small programs run for.
  bool poll(int64_t spin_us) const;

  // Blocks until it is complete; throws Error(kPlugin) if what it stands for has failed.
  void await() const;

  // poll(), then await().
  void wait(int64_t spin_us) const;

  PJRT_Event* get() const { return event_.get(); }

 private:
  std::unique_ptr<PJRT_Event, Deleter<&PJRT_Api::PJRT_Event_Destroy>> event_;
};

}  // namespace torch_pjrt::pjrt
