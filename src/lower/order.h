// The order in which a tensor's logical dims lie in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/type.h"

namespace torch_pjrt::lower {

// order[k] is the logical dim at physical position k, major to minor: {0, 2, 3, 1} is channels-last
// for NCHW.
using Order = std::vector<int64_t>;

Order row_major(int64_t rank);
bool is_row_major(const Order& order);

// dims[order[k]] for each k: logical to physical.
Dims permute(const Dims& dims, const Order& order);

// The position of each logical dim: inverse[order[k]] == k.
Order inverse(const Order& order);

// The order that is left when the logical dims `dropped` are gone and the others renumbered.
Order without(const Order& order, const std::vector<int64_t>& dropped);

// The order in which a tensor of these sizes and strides lies dense in memory, without gaps or
// overlap; none if it doesn't. Dims of size 1 take the place that keeps the rest in order, so a
// contiguous tensor is always row-major.
std::optional<Order> dense_order(const Dims& dims, const Dims& strides);

// The order in which the same memory, read as a tensor of `to`, as many elements, lies; none if
// that takes a copy.
std::optional<Order> reshaped_order(const Dims& from, const Order& order, const Dims& to);

}  // namespace torch_pjrt::lower
