#include "lower/convolve.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace torch_pjrt::lower {
namespace {

using hlo::Builder;
using hlo::Convolution;
using hlo::Op;
using hlo::Value;

// A larger window makes too long a sum.
constexpr int64_t kMaxDepthwiseWindow = 64;
// Dense convolutions over this many channels cost no more than over fewer.
constexpr int64_t kBlockChannels = 32;
// More blocks make too long a program.
constexpr int64_t kMaxBlocks = 64;

struct Sizes {
  int64_t in, out;  // channels
  Dims window;
  int64_t rank;

  Sizes(const Value& input, const Value& kernel, const Convolution& conv)
      : in(input.type.dims[conv.input_feature]),
        out(kernel.type.dims[conv.kernel_output_feature]),
        rank(input.type.rank()) {
    for (const int64_t d : conv.kernel_spatial) window.push_back(kernel.type.dims[d]);
  }
  int64_t window_size() const {
    return std::accumulate(window.begin(), window.end(), int64_t{1}, std::multiplies<>());
  }
};

bool has_one_layout(const Convolution& conv) {
  return conv.input_batch == conv.output_batch && conv.input_feature == conv.output_feature &&
         conv.input_spatial == conv.output_spatial;
}

// The image with its padding, spread out by the dilation.
Value padded(Builder& b, const Value& input, const Convolution& conv) {
  const auto rank = static_cast<size_t>(input.type.rank());
  Dims low(rank, 0);
  Dims high(rank, 0);
  Dims interior(rank, 0);
  for (size_t k = 0; k < conv.input_spatial.size(); ++k) {
    const int64_t d = conv.input_spatial[k];
    low[d] = conv.low[k];
    high[d] = conv.high[k];
    interior[d] = conv.lhs_dilation[k] - 1;
  }
  return b.pad(input, b.constant(0, {input.type.dtype, {}}), low, high, interior);
}

// [window elements, output channels]; one input channel a group.
Value by_element(Builder& b, const Value& kernel, const Convolution& conv, const Sizes& sizes) {
  std::vector<int64_t> order = conv.kernel_spatial;
  order.push_back(conv.kernel_output_feature);
  order.push_back(conv.kernel_input_feature);
  return b.reshape(b.transpose(kernel, order), {sizes.window_size(), sizes.out});
}

// Each channel once for every output channel of its group.
Value repeated(Builder& b, const Value& image, int64_t feature, int64_t times) {
  if (times == 1) return image;
  Dims dims = image.type.dims;
  dims.insert(dims.begin() + feature + 1, times);
  std::vector<int64_t> at(image.type.dims.size());
  std::iota(at.begin(), at.end(), 0);
  for (auto d = at.begin() + feature + 1; d != at.end(); ++d) ++*d;
  Dims joined = image.type.dims;
  joined[feature] *= times;
  return b.reshape(b.broadcast(image, dims, at), joined);
}

Value depthwise(Builder& b, const Value& input, const Value& kernel, const Convolution& conv,
                DType dtype) {
  const Sizes sizes(input, kernel, conv);
  const int64_t feature = conv.input_feature;
  const Value weights = by_element(b, b.convert(kernel, dtype), conv, sizes);
  const Value image =
      padded(b, repeated(b, b.convert(input, dtype), feature, sizes.out / sizes.in), conv);
  Dims start(sizes.rank, 0);
  Dims limit = image.type.dims;
  Dims strides(sizes.rank, 1);
  std::optional<Value> sum;
  for (int64_t k = 0; k < sizes.window_size(); ++k) {
    int64_t rest = k;
    for (size_t s = sizes.window.size(); s-- > 0;) {
      const int64_t d = conv.input_spatial[s];
      const int64_t reach = (sizes.window[s] - 1) * conv.rhs_dilation[s] + 1;
      const int64_t steps = (image.type.dims[d] - reach) / conv.strides[s];
      start[d] = rest % sizes.window[s] * conv.rhs_dilation[s];
      limit[d] = start[d] + steps * conv.strides[s] + 1;
      strides[d] = conv.strides[s];
      rest /= sizes.window[s];
    }
    const Value shifted = b.slice(image, start, limit, strides);
    const Value weight =
        b.reshape(b.slice(weights, {k, 0}, {k + 1, sizes.out}, {1, 1}), {sizes.out});
    const Value term =
        b.elementwise(Op::kMultiply, {shifted, b.broadcast(weight, shifted.type.dims, {feature})});
    sum = sum ? b.elementwise(Op::kAdd, {*sum, term}) : term;
  }
  return *sum;
}

// How many groups a block has, or 0 if blocks don't pay.
int64_t groups_of_block(const Sizes& sizes, int64_t groups) {
  const int64_t of_group = sizes.in / groups;
  if (of_group == 0) return 0;
  int64_t together = std::clamp<int64_t>(kBlockChannels / of_group, 1, groups);
  while (groups % together != 0) --together;
  return groups / together <= kMaxBlocks ? together : 0;
}

// The kernels of `together` groups as one dense kernel: [out, in, window..], zero where the output
// channel's group isn't the input channel's.
Value dense_kernel(Builder& b, const Value& kernel, int64_t together) {
  if (together == 1) return kernel;
  const Dims& dims = kernel.type.dims;
  Dims split = dims;
  split[0] /= together;
  split.insert(split.begin(), together);
  Dims wide = split;
  wide.insert(wide.begin() + 2, together);
  std::vector<int64_t> at = {0, 1};
  for (size_t d = 2; d < split.size(); ++d) at.push_back(static_cast<int64_t>(d) + 1);
  const Value repeated = b.broadcast(b.reshape(kernel, split), wide, at);
  const Value own = b.compare(hlo::Direction::kEq, b.iota(0, {DType::kI64, wide}),
                              b.iota(2, {DType::kI64, wide}));
  const Value zeros = b.constant(0, {kernel.type.dtype, wide});
  Dims joined = dims;
  joined[1] *= together;
  return b.reshape(b.elementwise(Op::kSelect, {own, repeated, zeros}), joined);
}

Value part(Builder& b, const Value& v, int64_t dim, int64_t index, int64_t size) {
  Dims start(v.type.dims.size(), 0);
  Dims limit = v.type.dims;
  start[dim] = index * size;
  limit[dim] = start[dim] + size;
  return b.slice(v, start, limit, Dims(limit.size(), 1));
}

Value by_blocks(Builder& b, const Value& input, const Value& kernel, const Convolution& conv,
                int64_t together, DType dtype) {
  const Sizes sizes(input, kernel, conv);
  const int64_t blocks = conv.feature_group_count / together;
  std::vector<int64_t> order = {conv.kernel_output_feature, conv.kernel_input_feature};
  order.insert(order.end(), conv.kernel_spatial.begin(), conv.kernel_spatial.end());
  const Value weights = b.transpose(kernel, order);
  Convolution one = conv;
  one.feature_group_count = 1;
  one.kernel_output_feature = 0;
  one.kernel_input_feature = 1;
  std::iota(one.kernel_spatial.begin(), one.kernel_spatial.end(), 2);
  std::vector<Value> results;
  for (int64_t k = 0; k < blocks; ++k) {
    const Value channels = part(b, input, conv.input_feature, k, sizes.in / blocks);
    const Value own = dense_kernel(b, part(b, weights, 0, k, sizes.out / blocks), together);
    results.push_back(b.convolution(channels, own, one, dtype));
  }
  return b.concatenate(results, conv.output_feature);
}

}  // namespace

Value convolve(Builder& b, const Options& options, const Value& input, const Value& kernel,
               const Convolution& conv, DType dtype) {
  const Sizes sizes(input, kernel, conv);
  const int64_t groups = conv.feature_group_count;
  const bool is_grouped = options.platform == "cpu" && groups > 1 && conv.batch_group_count == 1;
  if (!is_grouped) return b.convolution(input, kernel, conv, dtype);
  if (groups == sizes.in && has_one_layout(conv) && sizes.window_size() <= kMaxDepthwiseWindow)
    return depthwise(b, input, kernel, conv, dtype);
  if (const int64_t together = groups_of_block(sizes, groups); together > 0)
    return by_blocks(b, input, kernel, conv, together, dtype);
  return b.convolution(input, kernel, conv, dtype);
}

}  // namespace torch_pjrt::lower
