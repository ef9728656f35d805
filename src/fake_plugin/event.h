// Events, and the completion that they stand for.
#pragma once

#include <pjrt_c_api.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fake_plugin/object.h"

namespace torch_pjrt::fake {

// Something that happens once. Any thread may use it.
class Completion {
 public:
  void set();
  bool is_set() const;
  void wait() const;
  // Calls back at once if it is set.
  void on_set(PJRT_Event_OnReadyCallback callback, void* user_arg);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool set_ = false;
  std::vector<std::pair<PJRT_Event_OnReadyCallback, void*>> callbacks_;
};

// The caller owns it. Without a completion it is ready from the start.
PJRT_Event* make_event(PJRT_Client* client, std::shared_ptr<Completion> completion = nullptr);

}  // namespace torch_pjrt::fake

struct PJRT_Event : torch_pjrt::fake::Object {
  explicit PJRT_Event(PJRT_Client* client) : Object(torch_pjrt::fake::Kind::kEvent, client) {}

  std::shared_ptr<torch_pjrt::fake::Completion> completion;
};
