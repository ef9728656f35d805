// A dense tensor written in another memory order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/type.h"

namespace torch_pjrt::run {

// Writes row-major memory of type `type` to `to`, whose dim k is dim `order[k]` of the source; the
// ranges don't overlap.
void permuted_copy(const void* from, void* to, const Type& type, const std::vector<int64_t>& order);

}  // namespace torch_pjrt::run
