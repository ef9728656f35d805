// Max pooling with indices.
#include <array>
#include <limits>

#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

std::vector<int64_t> pair(const std::vector<int64_t>& v) {
  return v.size() == 1 ? std::vector<int64_t>(2, v[0]) : v;
}

// The window in the physical order of `t`, whose last two logical dims are pooled.
hlo::Window window(const Call& c, const Tensor& t) {
  const auto ones = std::vector<int64_t>(t.rank(), 1);
  const auto zeros = std::vector<int64_t>(t.rank(), 0);
  hlo::Window w{ones, ones, zeros, zeros, ones, ones};
  const std::vector<int64_t> kernel = pair(c.integers("kernel_size"));
  std::vector<int64_t> stride = pair(c.integers("stride"));
  if (stride.empty()) stride = kernel;
  const std::vector<int64_t> padding = pair(c.integers("padding"));
  const std::vector<int64_t> dilation = pair(c.integers("dilation"));
  const Order at = inverse(t.order);
  const Dims dims = t.dims();
  for (int64_t k = 0; k < 2; ++k) {
    const int64_t d = t.rank() - 2 + k;
    const int64_t reach = (c.result().dims[d] - 1) * stride[k] + dilation[k] * (kernel[k] - 1) + 1;
    w.sizes[at[d]] = kernel[k];
    w.strides[at[d]] = stride[k];
    w.window_dilations[at[d]] = dilation[k];
    w.low[at[d]] = padding[k];
    w.high[at[d]] =
        reach - dims[d] -
        padding[k];  // beyond the padding in ceil mode, negative where windows stop early
  }
  return w;
}

// The maximum and its flat index in the image: NaN wins, then the larger value, then the earlier
// index.
Results max_pool2d_with_indices(const Call& c) {
  const Tensor t = c.any_order(0);
  if (!is_floating(t.dtype()))
    c.unsupported("only floating-point inputs have a rule; convert with .float()");
  hlo::Builder& b = c.build();
  const Dims dims = t.dims();
  const int64_t rank = t.rank();
  const Tensor index = c.wrap(b.iota(0, {DType::kI64, {dims[rank - 2] * dims[rank - 1]}}));
  const Tensor flat =
      c.reorder(c.broadcast(c.reshape(index, {dims[rank - 2], dims[rank - 1]}), dims), t.order);
  const hlo::Value values[] = {t.value, flat.value};
  const hlo::Value inits[] = {b.constant(-std::numeric_limits<double>::infinity(), {t.dtype(), {}}),
                              b.constant(std::numeric_limits<int64_t>::max(), {DType::kI64, {}})};
  const auto body = [&](std::span<const hlo::Value> v) -> std::vector<hlo::Value> {
    const auto is = [&](hlo::Direction d, int x, int y) { return b.compare(d, v[x], v[y]); };
    const hlo::Value nan0 = is(hlo::Direction::kNe, 0, 0);
    const hlo::Value nan1 = is(hlo::Direction::kNe, 2, 2);
    const hlo::Value earlier = is(hlo::Direction::kLt, 1, 3);
    const hlo::Value equal = b.elementwise(
        Op::kOr, {is(hlo::Direction::kEq, 0, 2), b.elementwise(Op::kAnd, {nan0, nan1})});
    const hlo::Value above =
        b.elementwise(Op::kOr, {is(hlo::Direction::kGt, 0, 2),
                                b.elementwise(Op::kAnd, {nan0, b.elementwise(Op::kNot, {nan1})})});
    const hlo::Value first =
        b.elementwise(Op::kOr, {above, b.elementwise(Op::kAnd, {equal, earlier})});
    return {b.elementwise(Op::kSelect, {first, v[0], v[2]}),
            b.elementwise(Op::kSelect, {first, v[1], v[3]})};
  };
  const std::vector<hlo::Value> r = b.reduce_window(values, inits, window(c, t), body);
  return {Tensor{r[0], t.order}, Tensor{r[1], t.order}};
}

constexpr Entry kRules[] = {{"aten::max_pool2d_with_indices", max_pool2d_with_indices}};

}  // namespace

std::span<const Entry> pooling_rules() { return kRules; }

}  // namespace torch_pjrt::lower
