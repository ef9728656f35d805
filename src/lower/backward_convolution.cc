// Gradients of convolution and of transposed convolution.
//
// Both are one linear map between a wide image (the input, or a transposed convolution's output)
// and a narrow one, with a weight of dims [narrow channels, wide channels / groups, window..]. A
// gradient is the map one way or the other, or the correlation of the two images.
#include "lower/convolution.h"
#include "lower/convolve.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

class ConvolutionGradient {
 public:
  explicit ConvolutionGradient(const Call& c)
      : c_(c),
        rank_(c.any_order("input").rank()),
        order_(image_order(c.options(), rank_)),
        weight_(c.tensor("weight")),
        stride_(spatial(c.integers("stride"), rank_ - 2)),
        padding_(spatial(c.integers("padding"), rank_ - 2)),
        dilation_(spatial(c.integers("dilation"), rank_ - 2)),
        groups_(c.integer("groups")),
        is_transposed_(c.flag("transposed")) {
    const Tensor input = c.tensor("input", order_);
    const Tensor grad = c.tensor("grad_output", order_);
    wide_ = is_transposed_ ? grad : input;
    narrow_ = is_transposed_ ? input : grad;
  }

  Tensor input() const { return is_transposed_ ? narrow_from_wide() : wide_from_narrow(); }

  Tensor weight() const {
    const Dims& dims = weight_.dims();
    return kernel_gradient(c_.build(), c_.options(), wide_.value, narrow_.value, from_wide(),
                           Dims(dims.begin() + 2, dims.end()), dtype());
  }

  Tensor bias() const {
    const Tensor grad = c_.convert(is_transposed_ ? wide_ : narrow_, dtype());
    std::vector<int64_t> axes = {0};
    for (int64_t d = 2; d < rank_; ++d) axes.push_back(d);
    return c_.sum(grad, axes);
  }

 private:
  Order at() const { return inverse(order_); }
  DType dtype() const { return opmath(wide_.dtype()); }
  // Extent of the dilated window along spatial dim d.
  int64_t window(int64_t d) const { return (weight_.dims()[d + 2] - 1) * dilation_[d] + 1; }

  // Padding of the wide image with which the window lands once on each narrow element.
  void pad_wide(hlo::Convolution& conv) const {
    for (int64_t d = 0; d < rank_ - 2; ++d) {
      const int64_t reach = (narrow_.dims()[d + 2] - 1) * stride_[d] + window(d);
      conv.low.push_back(padding_[d]);
      conv.high.push_back(reach - wide_.dims()[d + 2] - padding_[d]);
    }
  }

  // Dim numbers of two images and a row-major weight of which the narrow side is the output.
  hlo::Convolution images() const {
    hlo::Convolution conv{};
    conv.input_batch = conv.output_batch = at()[0];
    conv.input_feature = conv.output_feature = at()[1];
    conv.kernel_output_feature = 0;
    conv.kernel_input_feature = 1;
    for (int64_t d = 2; d < rank_; ++d) {
      conv.input_spatial.push_back(at()[d]);
      conv.kernel_spatial.push_back(d);
    }
    conv.output_spatial = conv.input_spatial;
    return conv;
  }

  hlo::Convolution from_wide() const {
    hlo::Convolution conv = images();
    conv.strides = stride_;
    conv.lhs_dilation.assign(rank_ - 2, 1);
    conv.rhs_dilation = dilation_;
    conv.feature_group_count = groups_;
    pad_wide(conv);
    return conv;
  }

  Tensor narrow_from_wide() const {
    return {convolve(c_.build(), c_.options(), wide_.value, weight_.value, from_wide(), dtype()),
            order_};
  }

  // Each narrow element reaches a window of the wide image: the reversed window moves over the
  // narrow image, spread out by the stride.
  Tensor wide_from_narrow() const {
    hlo::Convolution conv = images();
    conv.kernel_input_feature = 0;
    conv.kernel_output_feature = 1;
    conv.strides.assign(rank_ - 2, 1);
    conv.lhs_dilation = stride_;
    conv.rhs_dilation = dilation_;
    conv.feature_group_count = groups_;
    for (int64_t d = 0; d < rank_ - 2; ++d) {
      const int64_t spread = (narrow_.dims()[d + 2] - 1) * stride_[d] + 1;
      conv.low.push_back(window(d) - 1 - padding_[d]);
      conv.high.push_back(wide_.dims()[d + 2] + padding_[d] - spread);
    }
    return {convolve(c_.build(), c_.options(), narrow_.value, reversed_weight(), conv, dtype()),
            order_};
  }

  // The weight with its window reversed, as [narrow channels / groups, wide channels, window..].
  hlo::Value reversed_weight() const {
    std::vector<int64_t> window;
    for (int64_t d = 2; d < rank_; ++d) window.push_back(d);
    hlo::Value reversed = c_.build().reverse(weight_.value, window);
    if (groups_ == 1) return reversed;
    Dims dims = weight_.dims();
    const int64_t narrow = dims[0] / groups_;
    const int64_t wide = dims[1];
    dims.erase(dims.begin());
    dims.insert(dims.begin(), {groups_, narrow});
    Dims swapped = row_major(rank_ + 1);
    std::swap(swapped[0], swapped[1]);
    const hlo::Value by_group = c_.build().transpose(c_.build().reshape(reversed, dims), swapped);
    dims.erase(dims.begin() + 1);
    dims[0] = narrow;
    dims[1] = groups_ * wide;
    return c_.build().reshape(by_group, dims);
  }

  const Call& c_;
  int64_t rank_;
  Order order_;
  Tensor weight_;
  std::vector<int64_t> stride_;
  std::vector<int64_t> padding_;
  std::vector<int64_t> dilation_;
  int64_t groups_;
  bool is_transposed_;
  Tensor wide_;
  Tensor narrow_;
};

Results convolution_backward(const Call& c) {
  const std::vector<bool> wanted = c.flags("output_mask");
  const ConvolutionGradient gradient(c);
  Results results;
  if (wanted[0]) results.push_back(gradient.input());
  if (wanted[1]) results.push_back(gradient.weight());
  if (wanted[2]) results.push_back(gradient.bias());
  return results;
}

constexpr Entry kRules[] = {{"aten::convolution_backward", convolution_backward}};

}  // namespace

std::span<const Entry> backward_convolution_rules() { return kRules; }

}  // namespace torch_pjrt::lower
