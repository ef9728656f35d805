// What of a folder goes when it holds too much.
#pragma once

#include <cstdint>

#include "cache/folder.h"

namespace torch_pjrt::cache {

struct Removed {
  int64_t entries = 0;
  int64_t bytes = 0;
};

// Removes the least recently used entries until all others together have `max_bytes` at most, and
// what processes that are gone left unfinished. Others may use the folder meanwhile: one that has
// opened an entry can still read it.
Removed prune(const Folder& folder, int64_t max_bytes);

}  // namespace torch_pjrt::cache
