// Convolution, in the memory order that the platform runs well.
#include "lower/convolution.h"

#include "lower/convolve.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {

// Channels last: XLA's CPU convolution takes half the time that it takes channels first.
Order image_order(const Options& options, int64_t rank) {
  Order order = row_major(rank);
  if (options.platform != "cpu") return order;
  order.erase(order.begin() + 1);
  order.push_back(1);
  return order;
}

std::vector<int64_t> spatial(const std::vector<int64_t>& values, int64_t rank) {
  return values.size() == 1 ? std::vector<int64_t>(rank, values[0]) : values;
}

namespace {

// The kernel [in, out / groups, ..] of a transposed convolution as that of the convolution over the
// spread input: [out, in / groups, ..], spatial dims reversed.
Tensor turned(const Call& c, const Tensor& weight, int64_t groups) {
  hlo::Builder& b = c.build();
  const Dims dims = weight.dims();
  Dims split = {groups, dims[0] / groups, dims[1]};
  split.insert(split.end(), dims.begin() + 2, dims.end());
  std::vector<int64_t> swap = row_major(static_cast<int64_t>(split.size()));
  std::swap(swap[1], swap[2]);
  Dims joined = dims;
  joined[0] = groups * dims[1];
  joined[1] = dims[0] / groups;
  std::vector<int64_t> spatial_dims;
  for (int64_t d = 2; d < weight.rank(); ++d) spatial_dims.push_back(d);
  const hlo::Value swapped = b.transpose(b.reshape(weight.value, split), swap);
  return c.wrap(b.reverse(b.reshape(swapped, joined), spatial_dims));
}

hlo::Convolution geometry(const Call& c, const Order& order, const Tensor& kernel) {
  const int64_t rank = c.result().rank() - 2;
  const Order at = inverse(order);
  const Order kernel_at = inverse(kernel.order);
  hlo::Convolution conv{};
  conv.input_batch = conv.output_batch = at[0];
  conv.input_feature = conv.output_feature = at[1];
  conv.kernel_output_feature = kernel_at[0];
  conv.kernel_input_feature = kernel_at[1];
  for (int64_t d = 0; d < rank; ++d) {
    conv.input_spatial.push_back(at[d + 2]);
    conv.output_spatial.push_back(at[d + 2]);
    conv.kernel_spatial.push_back(kernel_at[d + 2]);
  }
  conv.strides = spatial(c.integers("stride"), rank);
  conv.low = conv.high = spatial(c.integers("padding"), rank);
  conv.lhs_dilation.assign(rank, 1);
  conv.rhs_dilation = spatial(c.integers("dilation"), rank);
  conv.feature_group_count = c.integer("groups");
  if (!c.flag("transposed")) return conv;
  const std::vector<int64_t> more = spatial(c.integers("output_padding"), rank);
  for (int64_t d = 0; d < rank; ++d) {
    conv.low[d] = conv.rhs_dilation[d] * (kernel.dims()[d + 2] - 1) - conv.low[d];
    conv.high[d] = conv.low[d] + more[d];
  }
  std::swap(conv.strides, conv.lhs_dilation);
  return conv;
}

Results convolution(const Call& c) {
  const Order order = image_order(c.options(), c.result().rank());
  const Tensor input = c.tensor("input", order);
  const Tensor weight = c.flag("transposed") ? turned(c, c.tensor("weight"), c.integer("groups"))
                                             : c.any_order("weight");
  const hlo::Convolution conv = geometry(c, order, weight);
  Tensor result{
      convolve(c.build(), c.options(), input.value, weight.value, conv, opmath(c.result().dtype)),
      order};
  if (c.is_none("bias")) return result;
  Dims bias_dims(c.result().rank(), 1);
  bias_dims[1] = c.result().dims[1];
  const Tensor bias = c.reshape(c.convert(c.any_order("bias"), result.dtype()), bias_dims);
  return c.emit(Op::kAdd, {result, c.reorder(c.broadcast(bias, c.result().dims), order)});
}

constexpr Entry kRules[] = {{"aten::convolution", convolution}};

}  // namespace

std::span<const Entry> convolution_rules() { return kRules; }

}  // namespace torch_pjrt::lower
