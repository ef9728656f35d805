#include "fake_plugin/event.h"

#include "fake_plugin/strict.h"
#include "fake_plugin/table.h"

namespace torch_pjrt::fake {

void Completion::set() {
  std::vector<std::pair<PJRT_Event_OnReadyCallback, void*>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    set_ = true;
    callbacks.swap(callbacks_);
  }
  changed_.notify_all();
  for (const auto& [callback, user_arg] : callbacks) callback(nullptr, user_arg);
}

bool Completion::is_set() const {
  const std::lock_guard lock(mutex_);
  return set_;
}

void Completion::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return set_; });
}

void Completion::on_set(PJRT_Event_OnReadyCallback callback, void* user_arg) {
  {
    const std::lock_guard lock(mutex_);
    if (!set_) {
      callbacks_.emplace_back(callback, user_arg);
      return;
    }
  }
  callback(nullptr, user_arg);
}

PJRT_Event* make_event(PJRT_Client* client, std::shared_ptr<Completion> completion) {
  auto event = std::make_unique<PJRT_Event>(client);
  event->completion = std::move(completion);
  return event.release();
}

void add_event_functions(Table& table) {
  table.add_destructor<&PJRT_Api::PJRT_Event_Destroy>([](auto& args) { destroy(args.event); });
  table.add<&PJRT_Api::PJRT_Event_IsReady>([](auto& args) {
    args.is_ready = !args.event->completion || args.event->completion->is_set();
  });
  table.add<&PJRT_Api::PJRT_Event_Error>([](auto& args) {
    if (args.event->completion && !args.event->completion->is_set()) {
      fail(PJRT_Error_Code_FAILED_PRECONDITION, "the event is not ready yet");
    }
  });
  table.add<&PJRT_Api::PJRT_Event_Await>([](auto& args) {
    if (args.event->completion) args.event->completion->wait();
  });
  table.add<&PJRT_Api::PJRT_Event_OnReady>([](auto& args) {
    if (args.event->completion) {
      args.event->completion->on_set(args.callback, args.user_arg);
    } else {
      args.callback(nullptr, args.user_arg);
    }
  });
}

}  // namespace torch_pjrt::fake
