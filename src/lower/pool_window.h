// The window of a pooling op, from its arguments.
#pragma once

#include <vector>

#include "lower/rule.h"

namespace torch_pjrt::lower {

// Along one of the trailing dims that are pooled.
struct PoolDim {
  int64_t input, output;  // sizes
  int64_t kernel, stride, padding, dilation;

  // Where the window at output position `o` starts, in elements of the input; negative in padding.
  int64_t start(int64_t o) const { return o * stride - padding; }
  // Elements from the first window's start to the last one's, inclusive.
  int64_t spread() const { return (output - 1) * stride + 1; }
};

// One entry per pooled dim. `input` and `output` are the logical dims of the whole tensors.
std::vector<PoolDim> pool_dims(const Call& c, const Dims& input, const Dims& output, int64_t count);

// A list for each position of one dim, as a tensor that broadcasts against rank `rank` at `dim`.
Tensor along(const Call& c, const std::vector<int64_t>& values, DType dtype, int64_t dim,
             int64_t rank);

// `t`, of the output's dims, with its elements `stride` apart and the first at `low` in the input's
// dims; zeros elsewhere.
Tensor spread_out(const Call& c, const Tensor& t, const std::vector<PoolDim>& window,
                  const std::vector<int64_t>& low, const std::vector<int64_t>& high);

}  // namespace torch_pjrt::lower
