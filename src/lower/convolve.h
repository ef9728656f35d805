// A convolution, and the gradient of its kernel, in the form that the platform runs best.
#pragma once

#include "hlo/builder.h"
#include "lower/lower.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {

// StableHLO's convolution of `input` with `kernel`; the result has the dtype `dtype`.
//
// XLA's CPU plugin has no fast kernel for grouped convolution. There
// - a depthwise one is a sum of shifted images, each times one element of every channel's window;
// - one with small groups is a few dense ones, over blocks of channels whose kernel is zero between
//   different groups.
hlo::Value convolve(hlo::Builder& b, const Options& options, const hlo::Value& input,
                    const hlo::Value& kernel, const hlo::Convolution& conv, DType dtype);

// The gradient of the kernel, [out, in / groups, window..], by `grad`, that of the result; `conv`
// is what convolve() took, with input and result of one layout and the input not spread out.
// Grouped ones have the same forms: sums of products with shifted images, and blocks of channels.
Tensor kernel_gradient(hlo::Builder& b, const Options& options, const hlo::Value& input,
                       const hlo::Value& grad, const hlo::Convolution& conv, const Dims& window,
                       DType dtype);

}  // namespace torch_pjrt::lower
