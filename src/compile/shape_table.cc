#include "compile/shape_table.h"

#include <algorithm>

#include "compile/runtime.h"

namespace torch_pjrt::compile {

ShapeTable::Pointer ShapeTable::add(uint64_t hash, Pointer entry) {
  const std::lock_guard lock(mutex_);
  std::vector<Pointer>& same_hash = entries_[hash];
  const auto found = std::ranges::find(same_hash, entry->compiled, &Entry::compiled);
  if (found != same_hash.end()) return *found;
  // Looked at under the lock: whoever evicts sets this before it drops.
  if (!entry->compiled->is_evicted) same_hash.push_back(entry);
  return entry;
}

void ShapeTable::drop(const Compiled& compiled) {
  std::vector<Pointer> dropped;  // ends after the lock
  const std::lock_guard lock(mutex_);
  for (auto place = entries_.begin(); place != entries_.end();) {
    std::vector<Pointer>& same_hash = place->second;
    const auto gone = std::ranges::partition(
        same_hash, [&](const Pointer& e) { return &*e->compiled != &compiled; });
    dropped.insert(dropped.end(), gone.begin(), gone.end());
    same_hash.erase(gone.begin(), gone.end());
    place = same_hash.empty() ? entries_.erase(place) : std::next(place);
  }
}

}  // namespace torch_pjrt::compile
