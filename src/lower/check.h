// What rules' checks are made of: the first element that is bad.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "lower/rule.h"

namespace torch_pjrt::lower {

// No element: what first_bad() gives where nothing is bad.
inline constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

// The row-major position, 0-d i64, of the first element that is true; kNowhere if none is.
Tensor first_true(const Call& c, const Tensor& mask);

// The element at a 0-d position (any element at kNowhere), as 0-d i64.
Tensor element_at(const Call& c, const Tensor& t, const Tensor& position);

// Whether an element of an integer tensor is outside of [low, high]; a bool of the tensor's dims.
Tensor outside(const Call& c, const Tensor& t, int64_t low, int64_t high);

// Bad if an element of `index` is outside of [low, high]. `problem` may show the first such.
std::vector<Failure> check_range(const Call& c, const Tensor& index, int64_t low, int64_t high,
                                 const Problem& problem);

// Of an op on elements of `self` along `dim` by `index`: gather and scatter.
std::vector<Failure> check_element_index(const Call& c);

// Of self[indices]. Bool masks have no bounds.
std::vector<Failure> check_indices(const Call& c);

// Bad if argument `divisor` of an op that computes in integers has a zero.
std::vector<Failure> check_divisor(const Call& c, ArgKey divisor);

}  // namespace torch_pjrt::lower
