// A convolution in the form that the platform runs best.
#pragma once

#include "hlo/builder.h"
#include "lower/lower.h"

namespace torch_pjrt::lower {

// StableHLO's convolution of `input` with `kernel`; the result has the dtype `dtype`.
//
// XLA's CPU plugin has no fast kernel for grouped convolution. There
// - a depthwise one is a sum of shifted images, each times one element of every channel's window;
// - one with small groups is a few dense ones, over blocks of channels whose kernel is zero between
//   different groups.
hlo::Value convolve(hlo::Builder& b, const Options& options, const hlo::Value& input,
                    const hlo::Value& kernel, const hlo::Convolution& conv, DType dtype);

}  // namespace torch_pjrt::lower
