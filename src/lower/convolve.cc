#include "lower/convolve.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "lower/sum.h"

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
// A longer row of an image is added up in stages.
constexpr int64_t kMaxRow = 256;

int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

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
  int64_t window_size() const { return product(window); }
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

// The elements of a padded image that element `k` of the window meets, one for each of the result.
Value met(Builder& b, const Value& image, const Convolution& conv, const Dims& window, int64_t k) {
  Dims start(image.type.dims.size(), 0);
  Dims limit = image.type.dims;
  Dims strides(limit.size(), 1);
  for (size_t s = window.size(); s-- > 0;) {
    const int64_t d = conv.input_spatial[s];
    const int64_t reach = (window[s] - 1) * conv.rhs_dilation[s] + 1;
    const int64_t steps = (image.type.dims[d] - reach) / conv.strides[s];
    start[d] = k % window[s] * conv.rhs_dilation[s];
    limit[d] = start[d] + steps * conv.strides[s] + 1;
    strides[d] = conv.strides[s];
    k /= window[s];
  }
  return b.slice(image, start, limit, strides);
}

Value depthwise(Builder& b, const Value& input, const Value& kernel, const Convolution& conv,
                DType dtype) {
  const Sizes sizes(input, kernel, conv);
  const int64_t feature = conv.input_feature;
  const Value weights = by_element(b, b.convert(kernel, dtype), conv, sizes);
  const Value image =
      padded(b, repeated(b, b.convert(input, dtype), feature, sizes.out / sizes.in), conv);
  std::optional<Value> sum;
  for (int64_t k = 0; k < sizes.window_size(); ++k) {
    const Value shifted = met(b, image, conv, sizes.window, k);
    const Value weight =
        b.reshape(b.slice(weights, {k, 0}, {k + 1, sizes.out}, {1, 1}), {sizes.out});
    const Value term =
        b.elementwise(Op::kMultiply, {shifted, b.broadcast(weight, shifted.type.dims, {feature})});
    sum = sum ? b.elementwise(Op::kAdd, {*sum, term}) : term;
  }
  return *sum;
}

// How many groups a block has, or 0 if blocks don't pay.
int64_t groups_of_block(int64_t channels, int64_t groups) {
  const int64_t of_group = channels / groups;
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

// The sum over batch and spatial dims, for each channel of an image.
Value by_channel(Builder& b, const Value& image, const Convolution& conv) {
  const DType wide = promote(image.type.dtype, DType::kF64);
  std::vector<int64_t> dims = conv.output_spatial;
  dims.push_back(conv.output_batch);
  const int64_t last = conv.output_spatial.back();
  if (image.type.dims[last] > kMaxRow) return sum(b, image, dims, wide);
  // Rows first, which needs no other view of the image. From -0: see sum.cc.
  const Value zero = b.constant(-0.0, {image.type.dtype, {}});
  const Value rows = b.reduce(Op::kAdd, image, zero, {last});
  std::erase(dims, last);
  for (int64_t& d : dims) d -= d > last ? 1 : 0;
  return sum(b, rows, dims, wide);
}

// [out, 1, window..]
Value depthwise_gradient(Builder& b, const Value& input, const Value& grad, const Convolution& conv,
                         const Dims& window, DType dtype) {
  const int64_t out = grad.type.dims[conv.output_feature];
  const int64_t times = out / input.type.dims[conv.input_feature];
  const Value image =
      padded(b, repeated(b, b.convert(input, dtype), conv.input_feature, times), conv);
  const Value wide_grad = b.convert(grad, dtype);
  std::vector<Value> elements;
  for (int64_t k = 0; k < product(window); ++k) {
    const Value terms = b.elementwise(Op::kMultiply, {met(b, image, conv, window, k), wide_grad});
    elements.push_back(b.reshape(by_channel(b, terms, conv), {1, out}));
  }
  Dims dims = {out, 1};
  dims.insert(dims.end(), window.begin(), window.end());
  return b.reshape(b.transpose(b.concatenate(elements, 0), {1, 0}), dims);
}

// The window is moved over the input once per element of the kernel's own window.
Tensor correlation(Builder& b, const Value& input, const Value& grad, const Convolution& conv,
                   DType dtype) {
  const int64_t rank = input.type.rank();
  Convolution over = conv;
  std::swap(over.input_batch, over.input_feature);
  over.kernel_input_feature = conv.output_batch;
  over.kernel_output_feature = conv.output_feature;
  over.kernel_spatial = conv.output_spatial;
  std::swap(over.strides, over.rhs_dilation);
  std::swap(over.batch_group_count, over.feature_group_count);
  // The result is laid out [input channels, window.., output channels].
  Order order = row_major(rank);
  order.erase(order.begin());
  order.push_back(0);
  const Order in = inverse(order);
  over.output_batch = in[1];
  over.output_feature = in[0];
  over.output_spatial.assign(in.begin() + 2, in.end());
  return {b.convolution(input, grad, over, dtype), order};
}

// Of the gradient of a dense kernel [out, in, window..] of `together` groups what is of one group:
// [out, in / together, window..].
Value of_own_group(Builder& b, const Value& gradient, int64_t together) {
  if (together == 1) return gradient;
  const Dims& dims = gradient.type.dims;
  Dims split = {together, dims[0] / together, together, dims[1] / together};
  split.insert(split.end(), dims.begin() + 2, dims.end());
  const Value own = b.compare(hlo::Direction::kEq, b.iota(0, {DType::kI64, split}),
                              b.iota(2, {DType::kI64, split}));
  const DType dtype = gradient.type.dtype;
  const Value kept =
      b.elementwise(Op::kSelect, {own, b.reshape(gradient, split), b.constant(0, {dtype, split})});
  Dims joined = dims;
  joined[1] /= together;
  return b.reshape(b.reduce(Op::kAdd, kept, b.constant(0, {dtype, {}}), {2}), joined);
}

Value gradient_by_blocks(Builder& b, const Value& input, const Value& grad, const Convolution& conv,
                         int64_t together, DType dtype) {
  const int64_t blocks = conv.feature_group_count / together;
  const int64_t in = input.type.dims[conv.input_feature] / blocks;
  const int64_t out = grad.type.dims[conv.output_feature] / blocks;
  Convolution one = conv;
  one.feature_group_count = 1;
  std::vector<Value> results;
  for (int64_t k = 0; k < blocks; ++k) {
    const Tensor dense = correlation(b, part(b, input, conv.input_feature, k, in),
                                     part(b, grad, conv.output_feature, k, out), one, dtype);
    const Value gradient = b.transpose(dense.value, inverse(dense.order));
    results.push_back(of_own_group(b, gradient, together));
  }
  return b.concatenate(results, 0);
}

// Whether a grouped convolution takes a form of its own.
bool is_grouped(const Options& options, const Convolution& conv) {
  return options.platform == "cpu" && conv.feature_group_count > 1 && conv.batch_group_count == 1;
}

}  // namespace

Value convolve(Builder& b, const Options& options, const Value& input, const Value& kernel,
               const Convolution& conv, DType dtype) {
  const Sizes sizes(input, kernel, conv);
  const int64_t groups = conv.feature_group_count;
  if (!is_grouped(options, conv)) return b.convolution(input, kernel, conv, dtype);
  if (groups == sizes.in && has_one_layout(conv) && sizes.window_size() <= kMaxDepthwiseWindow)
    return depthwise(b, input, kernel, conv, dtype);
  if (const int64_t together = groups_of_block(sizes.in, groups); together > 0)
    return by_blocks(b, input, kernel, conv, together, dtype);
  return b.convolution(input, kernel, conv, dtype);
}

Tensor kernel_gradient(Builder& b, const Options& options, const Value& input, const Value& grad,
                       const Convolution& conv, const Dims& window, DType dtype) {
  const int64_t groups = conv.feature_group_count;
  const int64_t channels = input.type.dims[conv.input_feature];
  const auto row_major_tensor = [](Value v) {
    Order order = row_major(v.type.rank());
    return Tensor{std::move(v), std::move(order)};
  };
  if (!is_grouped(options, conv)) return correlation(b, input, grad, conv, dtype);
  if (groups == channels && product(window) <= kMaxDepthwiseWindow)
    return row_major_tensor(depthwise_gradient(b, input, grad, conv, window, dtype));
  if (const int64_t together = groups_of_block(channels, groups); together > 0)
    return row_major_tensor(gradient_by_blocks(b, input, grad, conv, together, dtype));
  return correlation(b, input, grad, conv, dtype);
}

}  // namespace torch_pjrt::lower
