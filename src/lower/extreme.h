// Maxima and minima of every dtype, with NaN before all numbers, and where they stand.
#pragma once

#include <vector>

#include "lower/rule.h"

namespace torch_pjrt::lower {

// A 0-d value that changes no maximum (op kMaximum) or minimum (kMinimum).
hlo::Value neutral(const Call& c, Op op, DType dtype);

// Of two values each one beyond the other, or NaN if either is. XLA's CPU compiler also orders the
// zeros by their sign in its own maximum and minimum, which PyTorch doesn't, at several times the
// cost.
hlo::Value extreme_of(hlo::Builder& b, const Options& options, Op op, const hlo::Value& x,
                      const hlo::Value& y);
Tensor extreme_of(const Call& c, Op op, const Tensor& x, const Tensor& y);

// The maximum or minimum over `axes`, which are dropped; NaN if one is there.
Tensor reduce_extreme(const Call& c, Op op, const Tensor& t, const std::vector<int64_t>& axes);

// `v` with fewer elements along dim `position`, among them the greatest (kMaximum) or the least
// (kMinimum), and NaN if one is there: what XLA's CPU compiler can vectorise, unlike a reduction
// that heeds NaN.
hlo::Value fewer(hlo::Builder& b, const Options& options, Op op, hlo::Value v, int64_t position);

// Whether `x` is beyond `y`: larger (kMaximum) or smaller, or NaN where the other is none.
hlo::Value is_beyond(hlo::Builder& b, Op op, const hlo::Value& x, const hlo::Value& y);

// A region's body that keeps one of two pairs (value, index, value, index): the one beyond the
// other, or the one of the lesser index.
hlo::Region keep_beyond(hlo::Builder& b, Op op);

struct Extreme {
  Tensor value, index;  // i64
};

// The extreme along `axis`, which is dropped, and its first index.
Extreme first_extreme(const Call& c, Op op, const Tensor& t, int64_t axis);

}  // namespace torch_pjrt::lower
