// Complex numbers made of their parts and taken apart, and the views that only note a conjugation
// or negation in eager: a graph's values are what such a tensor means, not its memory.
#include <limits>
#include <numbers>

#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

Results conjugate(const Call& c) {
  const Tensor z = c.any_order(0);
  if (!is_complex(z.dtype())) return z;
  return c.emit(Op::kComplex,
                {c.emit(Op::kReal, {z}), c.emit(Op::kNegate, {c.emit(Op::kImag, {z})})});
}

Results negate(const Call& c) { return c.emit(Op::kNegate, {c.any_order(0)}); }

// `t` with a last logical dim of `size`, which is its innermost in memory too.
Tensor with_inner_dim(const Call& c, const Tensor& t, int64_t size) {
  Dims dims = t.value.type.dims;
  dims.push_back(size);
  Order order = t.order;
  order.push_back(t.rank());
  return {c.build().reshape(t.value, dims), order};
}

Results view_as_real(const Call& c) {
  const Tensor z = c.any_order(0);
  const Tensor real = with_inner_dim(c, c.emit(Op::kReal, {z}), 1);
  const Tensor imag = with_inner_dim(c, c.emit(Op::kImag, {z}), 1);
  const hlo::Value parts[] = {real.value, imag.value};
  return Tensor{c.build().concatenate(parts, z.rank()), real.order};
}

Results view_as_complex(const Call& c) {
  const Tensor pairs = c.tensor(0);
  const auto part = [&](int64_t index) {
    Dims start(pairs.rank(), 0);
    Dims limit = pairs.dims();
    start.back() = index;
    limit.back() = index + 1;
    const hlo::Value slice = c.build().slice(pairs.value, start, limit, Dims(pairs.rank(), 1));
    return c.reshape(c.wrap(slice), c.result().dims);
  };
  return c.emit(Op::kComplex, {part(0), part(1)});
}

Results make_complex(const Call& c) {
  const DType dtype = part(c.result().dtype);
  return c.emit(Op::kComplex, {c.aligned(0, dtype), c.aligned(1, dtype)});
}

Results polar(const Call& c) {
  const DType dtype = part(c.result().dtype);
  const Tensor size = c.aligned(0, dtype);
  const Tensor angle = c.aligned(1, dtype);
  const auto along = [&](Op op) { return c.emit(Op::kMultiply, {size, c.emit(op, {angle})}); };
  return c.emit(Op::kComplex, {along(Op::kCosine), along(Op::kSine)});
}

// Of a real number: 0, pi if it is negative, NaN for NaN.
Results angle(const Call& c) {
  const Tensor x = c.any_order(0);
  if (is_complex(x.dtype()))
    return c.emit(Op::kAtan2, {c.emit(Op::kImag, {x}), c.emit(Op::kReal, {x})});
  const DType dtype = opmath(c.result().dtype);
  const Tensor t = c.convert(x, dtype);
  const Tensor negative = c.compare(hlo::Direction::kLt, t, c.splat_like(t, 0));
  const Tensor result = c.select(negative, c.splat_like(t, std::numbers::pi), c.splat_like(t, 0));
  return c.select(c.compare(hlo::Direction::kNe, t, t), t, result);
}

constexpr Entry kRules[] = {
    {"aten::_conj", conjugate},
    {"aten::_conj_physical", conjugate},
    {"aten::_neg_view", negate},
    {"aten::angle", angle},
    {"aten::complex", make_complex},
    {"aten::polar", polar},
    {"aten::view_as_complex", view_as_complex},
    {"aten::view_as_real", view_as_real},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> complex_rules() { return kRules; }

}  // namespace torch_pjrt::lower
