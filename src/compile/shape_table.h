// The entries of one graph, found by the values of its symbols.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/entry.h"

namespace torch_pjrt::compile {

// Any thread may use it. A call holds its entry, which may leave the table meanwhile.
class ShapeTable {
 public:
  using Pointer = std::shared_ptr<Entry>;

  // An entry that fits, among those added with this hash; else null. `fits` is quick: it runs under
  // a lock.
  template <class Fits>
  Pointer find(uint64_t hash, const Fits& fits) const {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(hash);
    if (found == entries_.end()) return nullptr;
    for (const Pointer& entry : found->second) {
      if (fits(*entry)) return entry;
    }
    return nullptr;
  }

  // Gives the entry of this program that is there already, which another thread made meanwhile, or
  // else adds this one, unless its program was evicted.
  Pointer add(uint64_t hash, Pointer entry);
  // Forgets the entries of a program that was evicted.
  void drop(const Compiled& compiled);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::vector<Pointer>> entries_;
};

}  // namespace torch_pjrt::compile
