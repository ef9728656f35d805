#include "run/kept.h"

#include <algorithm>
#include <utility>

namespace torch_pjrt::run {

Kept::Use::Use(Kept& kept) : kept_(kept), lock_(kept.mutex_), ticket_(++kept.last_ticket_) {
  kept.active_.push_back(ticket_);
}

Kept::Use::~Use() {
  std::vector<Retired> done;  // destroyed without the lock
  if (!lock_.owns_lock()) lock_.lock();
  std::erase(kept_.active_, ticket_);
  if (!kept_.retired_.empty()) {
    const uint64_t oldest = kept_.active_.empty()
                                ? kept_.last_ticket_ + 1
                                : *std::min_element(kept_.active_.begin(), kept_.active_.end());
    auto& retired = kept_.retired_;
    const auto first = std::partition(retired.begin(), retired.end(),
                                      [&](const Retired& r) { return r.last_ticket >= oldest; });
    done.assign(std::make_move_iterator(first), std::make_move_iterator(retired.end()));
    retired.erase(first, retired.end());
  }
  lock_.unlock();
}

PJRT_Buffer* Kept::Use::replace(size_t slot, const void* data, pjrt::Buffer buffer) {
  Slot& s = kept_.slots_[slot];
  if (s.buffer) {
    kept_.retired_.push_back({kept_.last_ticket_, std::move(*s.buffer)});
    s.buffer.reset();
  }
  s.data = data;
  return s.buffer.emplace(std::move(buffer)).get();
}

}  // namespace torch_pjrt::run
