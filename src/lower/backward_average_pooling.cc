// Gradients of average pooling.
#include <algorithm>

#include "lower/pool_window.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

// Sums over the windows of `t`, which is padded and spread out already.
Tensor window_sums(const Call& c, const Tensor& t, const std::vector<PoolDim>& window) {
  const auto ones = std::vector<int64_t>(t.rank(), 1);
  const auto zeros = std::vector<int64_t>(t.rank(), 0);
  hlo::Window w{ones, ones, zeros, zeros, ones, ones};
  const Order at = inverse(t.order);
  const auto first = t.rank() - static_cast<int64_t>(window.size());
  for (size_t k = 0; k < window.size(); ++k) {
    w.sizes[at[first + static_cast<int64_t>(k)]] = window[k].kernel;
  }
  const hlo::Value values[] = {t.value};
  const hlo::Value inits[] = {c.build().constant(0, {t.dtype(), {}})};
  const auto add = [&](std::span<const hlo::Value> v) -> std::vector<hlo::Value> {
    return {c.build().elementwise(Op::kAdd, {v[0], v[1]})};
  };
  return {c.build().reduce_window(values, inits, w, add)[0], t.order};
}

// `t`, of the output's dims, divided by the number of elements that each window averages.
Tensor divided(const Call& c, const Tensor& t, const std::vector<PoolDim>& window) {
  const auto spread = [&](const Tensor& count) {
    return c.reorder(c.broadcast(count, t.dims()), t.order);
  };
  if (!c.is_none("divisor_override")) {
    const auto divisor = static_cast<double>(c.integer("divisor_override"));
    return c.emit(Op::kDivide, {t, c.splat_like(t, divisor)});
  }
  const bool padding_counts = c.flag("count_include_pad");
  Tensor elements = c.splat_like(t, 1);
  for (size_t k = 0; k < window.size(); ++k) {
    const PoolDim& d = window[k];
    std::vector<int64_t> counts;
    for (int64_t o = 0; o < d.output; ++o) {
      const int64_t end = std::min(d.start(o) + d.kernel, d.input + d.padding);
      counts.push_back(padding_counts ? end - d.start(o)
                                      : std::min(end, d.input) - std::max<int64_t>(d.start(o), 0));
    }
    const auto dim = t.rank() - static_cast<int64_t>(window.size() - k);
    elements =
        c.emit(Op::kMultiply, {elements, spread(along(c, counts, t.dtype(), dim, t.rank()))});
  }
  return c.emit(Op::kDivide, {t, elements});
}

template <int count>
Results avg_pool_backward(const Call& c) {
  const Tensor grad = c.convert(c.any_order("grad_output"), opmath(c.result().dtype));
  const std::vector<PoolDim> window = pool_dims(c, c.result().dims, grad.dims(), count);
  std::vector<int64_t> low;
  std::vector<int64_t> high;
  for (const PoolDim& d : window) {
    low.push_back(d.kernel - 1 - d.padding);
    high.push_back(d.input + d.padding - d.spread());
  }
  return window_sums(c, spread_out(c, divided(c, grad, window), window, low, high), window);
}

// Output `o` is the mean of the inputs from floor(o * in / out) to ceil((o + 1) * in / out). Terms
// are selected, not multiplied by 0, so that an infinite gradient stays where it belongs.
Tensor adaptive_gradient(const Call& c, const Tensor& grad, int64_t dim, int64_t size) {
  const int64_t outputs = grad.dims()[dim];
  Dims dims = grad.dims();
  dims[dim] = size;
  const Tensor position = c.broadcast(
      [&] {
        Dims line(grad.rank(), 1);
        line[dim] = size;
        return c.reshape(c.wrap(c.build().iota(0, {DType::kI64, {size}})), line);
      }(),
      dims);
  const Tensor zero = c.wrap(c.build().constant(0, {grad.dtype(), dims}));
  Tensor total = zero;
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t first = o * size / outputs;
    const int64_t end = ((o + 1) * size + outputs - 1) / outputs;
    Dims start(grad.rank(), 0);
    Dims limit = grad.dims();
    start[dim] = o;
    limit[dim] = o + 1;
    const Tensor one = c.wrap(c.build().slice(grad.value, start, limit, Dims(grad.rank(), 1)));
    const Tensor share =
        c.emit(Op::kDivide, {one, c.splat_like(one, static_cast<double>(end - first))});
    const Tensor inside =
        c.emit(Op::kAnd, {c.compare(hlo::Direction::kGe, position,
                                    c.splat_like(position, static_cast<double>(first))),
                          c.compare(hlo::Direction::kLt, position,
                                    c.splat_like(position, static_cast<double>(end)))});
    total =
        c.emit(Op::kAdd, {total, c.select(inside, c.row_major(c.broadcast(share, dims)), zero)});
  }
  return total;
}

template <int count>
Results adaptive_avg_pool_backward(const Call& c) {
  Tensor grad = c.convert(c.tensor("grad_output"), opmath(c.result().dtype));
  for (int64_t d = grad.rank() - count; d < grad.rank(); ++d) {
    grad = adaptive_gradient(c, grad, d, c.result().dims[d]);
  }
  return grad;
}

constexpr Entry kRules[] = {
    {"aten::_adaptive_avg_pool2d_backward", adaptive_avg_pool_backward<2>},
    {"aten::_adaptive_avg_pool3d_backward", adaptive_avg_pool_backward<3>},
    {"aten::avg_pool2d_backward", avg_pool_backward<2>},
    {"aten::avg_pool3d_backward", avg_pool_backward<3>},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> backward_average_pooling_rules() { return kRules; }

}  // namespace torch_pjrt::lower
