// Normalisations: softmax, layer norm, batch norm in inference.
#include <limits>

#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

// `t`, reduced over `axes`, broadcast back to `like`.
Tensor spread(const Call& c, const Tensor& t, const std::vector<int64_t>& axes,
              const Tensor& like) {
  return c.reorder(c.broadcast(c.keep_dims(t, axes), like.dims()), like.order);
}

// The operand of a softmax in its compute type, less its greatest element along the op's axis.
struct Shifted {
  Tensor x;
  std::vector<int64_t> axes;
};

Shifted shifted(const Call& c) {
  const Tensor x = c.convert(c.any_order(0), opmath(c.result().dtype));
  std::vector<int64_t> axes;
  if (x.rank() > 0) axes.push_back(c.axis("dim", x.rank()));
  const Tensor top = c.reduce(Op::kMaximum, x, -std::numeric_limits<double>::infinity(), axes);
  return {c.emit(Op::kSubtract, {x, spread(c, top, axes, x)}), axes};
}

Results softmax(const Call& c) {
  const Shifted s = shifted(c);
  const Tensor e = c.emit(Op::kExponential, {s.x});
  return c.emit(Op::kDivide, {e, spread(c, c.sum(e, s.axes), s.axes, e)});
}

Results log_softmax(const Call& c) {
  const Shifted s = shifted(c);
  const Tensor total = c.sum(c.emit(Op::kExponential, {s.x}), s.axes);
  return c.emit(Op::kSubtract, {s.x, spread(c, c.emit(Op::kLog, {total}), s.axes, s.x)});
}

// Biased mean and 1/sqrt(variance + eps) over the trailing dims of normalized_shape.
Results native_layer_norm(const Call& c) {
  const DType dtype = opmath(c.result().dtype);
  const Tensor x = c.convert(c.tensor(0), dtype);
  const auto count = static_cast<int64_t>(c.integers("normalized_shape").size());
  std::vector<int64_t> axes;
  double elements = 1;
  const Dims dims = x.dims();
  for (int64_t d = x.rank() - count; d < x.rank(); ++d) {
    axes.push_back(d);
    elements *= static_cast<double>(dims[d]);
  }
  const auto mean_of = [&](const Tensor& t) {
    const Tensor total = c.sum(t, axes);
    return c.emit(Op::kDivide, {total, c.splat_like(total, elements)});
  };
  const Tensor mean = mean_of(x);
  const Tensor centred = c.emit(Op::kSubtract, {x, spread(c, mean, axes, x)});
  const Tensor variance = mean_of(c.emit(Op::kMultiply, {centred, centred}));
  const Tensor eps = c.broadcast(c.scalar("eps", dtype), variance.dims());
  const Tensor rstd = c.emit(Op::kRsqrt, {c.emit(Op::kAdd, {variance, eps})});
  Tensor y = c.emit(Op::kMultiply, {centred, spread(c, rstd, axes, x)});
  const auto affine = [&](const char* name) {
    return c.row_major(c.broadcast(c.convert(c.any_order(name), dtype), dims));
  };
  if (!c.is_none("weight")) y = c.emit(Op::kMultiply, {y, affine("weight")});
  if (!c.is_none("bias")) y = c.emit(Op::kAdd, {y, affine("bias")});
  return {y, c.keep_dims(mean, axes), c.keep_dims(rstd, axes)};
}

// (x - mean) / sqrt(var + eps) * weight + bias per channel; the saved statistics are empty.
Results batch_norm_no_training(const Call& c) {
  const Tensor x = c.aligned(0);
  const DType dtype = x.dtype();
  Dims per_channel(x.rank(), 1);
  per_channel[1] = c.result().dims[1];
  const auto vector = [&](const char* name) { return c.convert(c.tensor(name), dtype); };
  const auto channels = [&](const Tensor& t) {
    return c.reorder(c.broadcast(c.reshape(t, per_channel), c.result().dims), x.order);
  };
  const Tensor variance = vector("running_var");
  const Tensor eps = c.broadcast(c.scalar("eps", dtype), variance.dims());
  Tensor scale = c.emit(Op::kRsqrt, {c.emit(Op::kAdd, {variance, eps})});
  if (!c.is_none("weight")) scale = c.emit(Op::kMultiply, {scale, vector("weight")});
  Tensor y = c.emit(Op::kMultiply, {c.emit(Op::kSubtract, {x, channels(vector("running_mean"))}),
                                    channels(scale)});
  if (!c.is_none("bias")) y = c.emit(Op::kAdd, {y, channels(vector("bias"))});
  const auto empty = [&](size_t k) { return c.wrap(c.build().constant(0.0, c.result(k))); };
  return {y, empty(1), empty(2)};
}

constexpr Entry kRules[] = {
    {"aten::_log_softmax", log_softmax},
    {"aten::_native_batch_norm_legit_no_training", batch_norm_no_training},
    {"aten::_softmax", softmax},
    {"aten::native_layer_norm", native_layer_norm},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> norm_rules() { return kRules; }

}  // namespace torch_pjrt::lower
