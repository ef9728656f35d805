// Convolution, in the memory order that the platform runs well.
#include "lower/convolution.h"

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

Results convolution(const Call& c) {
  if (c.flag("transposed")) c.unsupported("transposed convolution has no rule yet");
  const Order order = image_order(c.options(), c.result().rank());
  const int64_t rank = c.result().rank() - 2;
  const Tensor input = c.tensor("input", order);
  const Tensor weight = c.tensor("weight");
  const Order at = inverse(order);
  hlo::Convolution conv{};
  conv.input_batch = conv.output_batch = at[0];
  conv.input_feature = conv.output_feature = at[1];
  conv.kernel_output_feature = 0;
  conv.kernel_input_feature = 1;
  for (int64_t d = 0; d < rank; ++d) {
    conv.input_spatial.push_back(at[d + 2]);
    conv.output_spatial.push_back(at[d + 2]);
    conv.kernel_spatial.push_back(d + 2);
  }
  conv.strides = spatial(c.integers("stride"), rank);
  conv.low = conv.high = spatial(c.integers("padding"), rank);
  conv.lhs_dilation.assign(rank, 1);
  conv.rhs_dilation = spatial(c.integers("dilation"), rank);
  conv.feature_group_count = c.integer("groups");
  Tensor result{c.build().convolution(input.value, weight.value, conv, opmath(c.result().dtype)),
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
