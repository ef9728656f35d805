// What the rules of convolution and of its backward share.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/lower.h"
#include "lower/order.h"

namespace torch_pjrt::lower {

// The memory order in which the platform convolves images of this rank well.
Order image_order(const Options& options, int64_t rank);

// A list with one entry for each of `rank` spatial dims; a lone entry stands for all.
std::vector<int64_t> spatial(const std::vector<int64_t>& values, int64_t rank);

}  // namespace torch_pjrt::lower
