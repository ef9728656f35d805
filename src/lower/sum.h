// Sums of many elements, whose rounding errors stay as small as eager's.
#pragma once

#include <vector>

#include "hlo/builder.h"

namespace torch_pjrt::lower {

// The sum over physical `dims`, which are dropped. Of more than a thousand floating-point or
// complex elements short runs are added first, and then their sums, in `wide`, the type of `v` or
// a wider one.
hlo::Value sum(hlo::Builder& b, const hlo::Value& v, const std::vector<int64_t>& dims, DType wide);

}  // namespace torch_pjrt::lower
