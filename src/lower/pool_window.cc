#include "lower/pool_window.h"

namespace torch_pjrt::lower {
namespace {

// A list with one entry for each pooled dim; a lone entry stands for all.
std::vector<int64_t> each(const std::vector<int64_t>& values, int64_t count) {
  return values.size() == 1 ? std::vector<int64_t>(count, values[0]) : values;
}

}  // namespace

std::vector<PoolDim> pool_dims(const Call& c, const Dims& input, const Dims& output,
                               int64_t count) {
  const std::vector<int64_t> kernel = each(c.integers("kernel_size"), count);
  const std::vector<int64_t> given = each(c.integers("stride"), count);
  const std::vector<int64_t>& stride = given.empty() ? kernel : given;
  const std::vector<int64_t> padding = each(c.integers("padding"), count);
  const std::vector<int64_t> dilation =
      c.has("dilation") ? each(c.integers("dilation"), count) : std::vector<int64_t>(count, 1);
  std::vector<PoolDim> result;
  for (int64_t k = 0; k < count; ++k) {
    const size_t d = input.size() - count + k;
    result.push_back({input[d], output[d], kernel[k], stride[k], padding[k], dilation[k]});
  }
  return result;
}

Tensor along(const Call& c, const std::vector<int64_t>& values, DType dtype, int64_t dim,
             int64_t rank) {
  Dims dims(rank, 1);
  dims[dim] = static_cast<int64_t>(values.size());
  return c.reshape(c.wrap(c.build().constant_list(values, dtype)), dims);
}

Tensor spread_out(const Call& c, const Tensor& t, const std::vector<PoolDim>& window,
                  const std::vector<int64_t>& low, const std::vector<int64_t>& high) {
  const Order at = inverse(t.order);
  const auto first = t.rank() - static_cast<int64_t>(window.size());
  Dims before(t.rank(), 0);
  Dims after(t.rank(), 0);
  Dims between(t.rank(), 0);
  for (size_t k = 0; k < window.size(); ++k) {
    const int64_t position = at[first + static_cast<int64_t>(k)];
    before[position] = low[k];
    after[position] = high[k];
    between[position] = window[k].stride - 1;
  }
  const hlo::Value zero = c.build().constant(0, {t.dtype(), {}});
  return {c.build().pad(t.value, zero, before, after, between), t.order};
}

}  // namespace torch_pjrt::lower
