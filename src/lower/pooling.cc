// Pooling over windows: maxima with their indices, averages.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "lower/extreme.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

// A list of the op, with an entry for each pooled dim.
std::vector<int64_t> per_dim(const Call& c, ArgKey key, int64_t rank) {
  const std::vector<int64_t> v = c.integers(key);
  return v.size() == 1 ? std::vector<int64_t>(rank, v[0]) : v;
}

// The window over the last `pooled` logical dims.
struct Pooling {
  std::vector<int64_t> kernel, stride, padding, dilation;

  Pooling(const Call& c, int64_t pooled)
      : kernel(per_dim(c, "kernel_size", pooled)),
        stride(per_dim(c, "stride", pooled)),
        padding(per_dim(c, "padding", pooled)),
        dilation(pooled, 1) {
    if (stride.empty()) stride = kernel;
  }

  // In the physical order of `t`.
  hlo::Window window(const Call& c, const Tensor& t) const {
    const auto ones = std::vector<int64_t>(t.rank(), 1);
    const auto zeros = std::vector<int64_t>(t.rank(), 0);
    hlo::Window w{ones, ones, zeros, zeros, ones, ones};
    const Order at = inverse(t.order);
    const Dims dims = t.dims();
    const auto pooled = static_cast<int64_t>(kernel.size());
    for (int64_t k = 0; k < pooled; ++k) {
      const int64_t d = t.rank() - pooled + k;
      const int64_t reach =
          (c.result().dims[d] - 1) * stride[k] + dilation[k] * (kernel[k] - 1) + 1;
      w.sizes[at[d]] = kernel[k];
      w.strides[at[d]] = stride[k];
      w.window_dilations[at[d]] = dilation[k];
      w.low[at[d]] = padding[k];
      // Beyond the padding in ceil mode, negative where windows stop early.
      w.high[at[d]] = reach - dims[d] - padding[k];
    }
    return w;
  }
};

// So many elements of a window are compared one by one.
constexpr int64_t kFewElements = 16;

// The element at `at` of each window of `t`, which is padded.
hlo::Value nth_elements(hlo::Builder& b, const hlo::Value& t, const hlo::Window& window,
                        const std::vector<int64_t>& at, const Dims& windows) {
  Dims start, limit;
  for (size_t d = 0; d < windows.size(); ++d) {
    start.push_back(at[d] * window.window_dilations[d]);
    limit.push_back(start[d] + (windows[d] - 1) * window.strides[d] + 1);
  }
  return b.slice(t, start, limit, window.strides);
}

// The maxima as those of shifted images, which XLA's CPU compiler vectorises.
hlo::Value maxima_of_shifted(const Call& c, const hlo::Value& t, const hlo::Window& window,
                             const Dims& windows) {
  hlo::Builder& b = c.build();
  const hlo::Value least = neutral(c, Op::kMaximum, t.type.dtype);
  const hlo::Value padded =
      b.pad(t, least, window.low, window.high, std::vector<int64_t>(windows.size(), 0));
  std::vector<int64_t> at(windows.size(), 0);
  hlo::Value most = nth_elements(b, padded, window, at, windows);
  const auto next = [&] {
    for (size_t d = at.size(); d-- > 0; at[d] = 0) {
      if (++at[d] < window.sizes[d]) return true;
    }
    return false;
  };
  while (next()) {
    most = extreme_of(b, c.options(), Op::kMaximum, most,
                      nth_elements(b, padded, window, at, windows));
  }
  return most;
}

Tensor maxima(const Call& c, const Tensor& t, const hlo::Window& window) {
  hlo::Builder& b = c.build();
  const int64_t elements =
      std::accumulate(window.sizes.begin(), window.sizes.end(), int64_t{1}, std::multiplies<>());
  const Type& result = c.result();
  if (c.options().platform == "cpu" && elements <= kFewElements && result.num_elements() > 0)
    return {maxima_of_shifted(c, t.value, window, permute(result.dims, t.order)), t.order};
  const hlo::Value least = neutral(c, Op::kMaximum, t.dtype());
  const auto greater = [&b](std::span<const hlo::Value> v) -> std::vector<hlo::Value> {
    return {b.elementwise(Op::kMaximum, v)};
  };
  return {b.reduce_window({&t.value, 1}, {&least, 1}, window, greater)[0], t.order};
}

// The maximum and its flat index in the image: NaN wins, then the larger value, then the earlier
// index. Where nobody reads the indices, which take twice the memory of the image, they aren't
// made.
template <int64_t pooled>
Results max_pool_with_indices(const Call& c) {
  const Tensor t = c.any_order(0);
  Pooling pooling(c, pooled);
  pooling.dilation = per_dim(c, "dilation", pooled);
  if (!c.is_used(1)) return maxima(c, t, pooling.window(c, t));
  hlo::Builder& b = c.build();
  const Dims dims = t.dims();
  const Dims image(dims.end() - pooled, dims.end());
  int64_t size = 1;
  for (const int64_t d : image) size *= d;
  const Tensor index = c.reshape(c.wrap(b.iota(0, {DType::kI64, {size}})), image);
  const Tensor flat = c.reorder(c.broadcast(index, dims), t.order);
  const hlo::Value values[] = {t.value, flat.value};
  const hlo::Value inits[] = {neutral(c, Op::kMaximum, t.dtype()),
                              b.constant(std::numeric_limits<int64_t>::max(), {DType::kI64, {}})};
  const std::vector<hlo::Value> r =
      b.reduce_window(values, inits, pooling.window(c, t), keep_beyond(b, Op::kMaximum));
  return {Tensor{r[0], t.order}, Tensor{r[1], t.order}};
}

// How many elements the windows along logical dim `d` count: those inside, or inside the padding.
Tensor counted(const Call& c, const Pooling& p, int64_t k, int64_t size, int64_t windows,
               bool count_padding) {
  std::vector<int64_t> counts;
  for (int64_t o = 0; o < windows; ++o) {
    const int64_t start = o * p.stride[k] - p.padding[k];
    const int64_t end = std::min(start + p.kernel[k], size + p.padding[k]);
    counts.push_back(count_padding ? end - start
                                   : std::min(end, size) - std::max<int64_t>(start, 0));
  }
  return c.wrap(c.build().constant_list(counts, DType::kI64));
}

template <int64_t pooled>
Results average_pool(const Call& c) {
  const Pooling pooling(c, pooled);
  const Tensor t = c.convert(c.any_order(0), opmath(c.result().dtype));
  hlo::Builder& b = c.build();
  const hlo::Value zero = b.constant(0, {t.dtype(), {}});
  const auto add = [&b](std::span<const hlo::Value> v) -> std::vector<hlo::Value> {
    return {b.elementwise(Op::kAdd, v)};
  };
  const Tensor total{b.reduce_window({&t.value, 1}, {&zero, 1}, pooling.window(c, t), add)[0],
                     t.order};
  if (!c.is_none("divisor_override")) {
    return c.emit(Op::kDivide,
                  {total, c.splat_like(total, static_cast<double>(c.integer("divisor_override")))});
  }
  const Dims out = c.result().dims;
  Tensor count = c.wrap(b.constant(1, {DType::kI64, {}}));
  const Dims in = t.dims();
  for (int64_t k = 0; k < pooled; ++k) {
    const int64_t d = t.rank() - pooled + k;
    const Tensor along = counted(c, pooling, k, in[d], out[d], c.flag("count_include_pad"));
    Dims both = count.dims();
    both.push_back(out[d]);
    Dims left = count.dims();
    left.push_back(1);
    count = c.emit(Op::kMultiply,
                   {c.broadcast(c.reshape(count, left), both), c.broadcast(along, both)});
  }
  const Tensor divisor = c.reorder(c.broadcast(c.convert(count, t.dtype()), out), t.order);
  return c.emit(Op::kDivide, {total, divisor});
}

constexpr Entry kRules[] = {
    {"aten::avg_pool2d", average_pool<2>},
    {"aten::avg_pool3d", average_pool<3>},
    {"aten::max_pool2d_with_indices", max_pool_with_indices<2>},
    {"aten::max_pool3d_with_indices", max_pool_with_indices<3>},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> pooling_rules() { return kRules; }

}  // namespace torch_pjrt::lower
