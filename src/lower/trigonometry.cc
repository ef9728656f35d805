// Trigonometric and hyperbolic functions, and logarithms and powers of other bases.
#include <cmath>
#include <limits>
#include <numbers>

#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

// Arithmetic on one tensor's dims and order.
class Arithmetic {
 public:
  explicit Arithmetic(const Call& call) : c_(call) {}

  Tensor number(const Tensor& like, double value) const { return c_.splat_like(like, value); }
  Tensor add(const Tensor& a, const Tensor& b) const { return c_.emit(Op::kAdd, {a, b}); }
  Tensor add(const Tensor& a, double b) const { return add(a, number(a, b)); }
  Tensor subtract(const Tensor& a, const Tensor& b) const { return c_.emit(Op::kSubtract, {a, b}); }
  Tensor multiply(const Tensor& a, const Tensor& b) const { return c_.emit(Op::kMultiply, {a, b}); }
  Tensor multiply(const Tensor& a, double b) const { return multiply(a, number(a, b)); }
  Tensor divide(const Tensor& a, const Tensor& b) const { return c_.emit(Op::kDivide, {a, b}); }
  Tensor apply(Op op, const Tensor& a) const { return c_.emit(op, {a}); }
  Tensor below(const Tensor& a, double b) const {
    return c_.compare(hlo::Direction::kLt, a, number(a, b));
  }
  // `magnitude` with the sign of `of`, also that of -0.
  Tensor with_sign(const Tensor& magnitude, const Tensor& of) const {
    return c_.select(below(of, 0), apply(Op::kNegate, magnitude),
                     c_.select(c_.compare(hlo::Direction::kEq, of, number(of, 0)), of, magnitude));
  }

 private:
  const Call& c_;
};

// sqrt(1 - x * x) without cancellation near 1.
Tensor cosine_of(const Arithmetic& m, const Tensor& x) {
  const Tensor one = m.number(x, 1);
  return m.apply(Op::kSqrt, m.multiply(m.subtract(one, x), m.add(one, x)));
}

Results asin(const Call& c) {
  const Arithmetic m(c);
  const Tensor x = c.aligned(0);
  return m.multiply(c.emit(Op::kAtan2, {x, m.add(cosine_of(m, x), 1)}), 2);
}

Results acos(const Call& c) {
  const Arithmetic m(c);
  const Tensor x = c.aligned(0);
  const Tensor angle = m.multiply(c.emit(Op::kAtan2, {cosine_of(m, x), m.add(x, 1)}), 2);
  // At -1 both are 0.
  return c.select(c.compare(hlo::Direction::kEq, x, m.number(x, -1)), m.number(x, std::numbers::pi),
                  angle);
}

Results atan(const Call& c) {
  const Tensor x = c.aligned(0);
  return c.emit(Op::kAtan2, {x, c.splat_like(x, 1)});
}

Results atan2(const Call& c) { return c.emit(Op::kAtan2, {c.aligned(0), c.aligned(1)}); }
Results tan(const Call& c) { return c.emit(Op::kTan, {c.aligned(0)}); }

// exp(x) / 2, which overflows only where the result does.
Tensor half_exponential(const Arithmetic& m, const Tensor& x) {
  const Tensor root = m.apply(Op::kExponential, m.multiply(x, 0.5));
  return m.multiply(root, m.multiply(root, 0.5));
}

Results cosh(const Call& c) {
  const Arithmetic m(c);
  const Tensor x = c.aligned(0);
  return m.add(half_exponential(m, x), half_exponential(m, m.apply(Op::kNegate, x)));
}

Results sinh(const Call& c) {
  const Arithmetic m(c);
  const Tensor x = c.aligned(0);
  const Tensor e = m.apply(Op::kExponentialMinusOne, x);
  const Tensor near = m.multiply(m.add(e, m.divide(e, m.add(e, 1))), 0.5);
  const Tensor far =
      m.subtract(half_exponential(m, x), half_exponential(m, m.apply(Op::kNegate, x)));
  return c.select(m.below(m.apply(Op::kAbs, x), 1), near, far);
}

// From where on x + 1 is x in the square root: log(2 * x) does.
double large(DType dtype) { return dtype == DType::kF64 ? 0x1p28 : 0x1p13; }

Results asinh(const Call& c) {
  const Arithmetic m(c);
  const Tensor x = c.aligned(0);
  if (is_complex(x.dtype())) c.unsupported("no rule for complex numbers");
  const Tensor size = m.apply(Op::kAbs, x);
  const Tensor square = m.multiply(size, size);
  const Tensor root = m.apply(Op::kSqrt, m.add(square, 1));
  const Tensor near = m.apply(Op::kLogPlusOne, m.add(size, m.divide(square, m.add(root, 1))));
  const Tensor far = m.add(m.apply(Op::kLog, size), std::numbers::ln2);
  return m.with_sign(c.select(m.below(size, large(x.dtype())), near, far), x);
}

Results acosh(const Call& c) {
  const Arithmetic m(c);
  const Tensor x = c.aligned(0);
  const Tensor t = m.add(x, -1);
  const Tensor root = m.multiply(m.apply(Op::kSqrt, t), m.apply(Op::kSqrt, m.add(t, 2)));
  const Tensor near = m.apply(Op::kLogPlusOne, m.add(t, root));
  const Tensor far = m.add(m.apply(Op::kLog, x), std::numbers::ln2);
  return c.select(m.below(x, large(x.dtype())), near, far);
}

Results atanh(const Call& c) {
  const Arithmetic m(c);
  const Tensor x = c.aligned(0);
  const Tensor difference =
      m.subtract(m.apply(Op::kLogPlusOne, x), m.apply(Op::kLogPlusOne, m.apply(Op::kNegate, x)));
  return m.multiply(difference, 0.5);
}

Results exp2(const Call& c) {
  const Tensor x = c.aligned(0);
  return c.emit(Op::kPower, {c.splat_like(x, 2), x});
}

template <int base>
Results logarithm(const Call& c) {
  const Tensor log = c.emit(Op::kLog, {c.aligned(0)});
  return c.emit(Op::kDivide, {log, c.splat_like(log, std::log(base))});
}

// The magnitude of one with the sign of the other, NaN and zeros as well.
Results copysign(const Call& c) {
  const Tensor size = c.emit(Op::kAbs, {c.aligned(0)});
  const Tensor sign = c.aligned(1);
  const DType bits = sign.dtype() == DType::kF64 ? DType::kI64 : DType::kI32;
  const Tensor pattern{c.build().bitcast_convert(sign.value, bits), sign.order};
  const Tensor negative = c.compare(hlo::Direction::kLt, pattern, c.splat_like(pattern, 0));
  return c.select(negative, c.emit(Op::kNegate, {size}), size);
}

// Whether the sign bit is set.
Results signbit(const Call& c) {
  const Tensor x = c.any_order(0);
  if (!is_floating(x.dtype())) {
    if (x.dtype() == DType::kBool) return c.splat_like(x, 0);
    return c.compare(hlo::Direction::kLt, x, c.splat_like(x, 0));
  }
  const DType bits = x.dtype() == DType::kF64   ? DType::kI64
                     : x.dtype() == DType::kF32 ? DType::kI32
                                                : DType::kI16;
  const Tensor pattern{c.build().bitcast_convert(x.value, bits), x.order};
  return c.compare(hlo::Direction::kLt, pattern, c.splat_like(pattern, 0));
}

// sqrt(a * a + b * b) without overflow on the way; infinity even beside NaN.
Results hypot(const Call& c) {
  const Arithmetic m(c);
  const Tensor a = m.apply(Op::kAbs, c.aligned(0));
  const Tensor b = m.apply(Op::kAbs, c.aligned(1));
  const Tensor top = c.emit(Op::kMaximum, {a, b});
  const Tensor ratio = m.divide(c.emit(Op::kMinimum, {a, b}), top);
  const Tensor length = m.multiply(top, m.apply(Op::kSqrt, m.add(m.multiply(ratio, ratio), 1)));
  const Tensor infinity = m.number(a, std::numeric_limits<double>::infinity());
  const auto is_infinite = [&](const Tensor& t) {
    return c.compare(hlo::Direction::kEq, t, infinity);
  };
  const Tensor plain = c.select(c.compare(hlo::Direction::kEq, top, m.number(top, 0)), top, length);
  return c.select(c.emit(Op::kOr, {is_infinite(a), is_infinite(b)}), infinity, plain);
}

constexpr Entry kRules[] = {
    {"aten::acos", acos},
    {"aten::acosh", acosh},
    {"aten::asin", asin},
    {"aten::asinh", asinh},
    {"aten::atan", atan},
    {"aten::atan2", atan2},
    {"aten::atanh", atanh},
    {"aten::copysign.Scalar", copysign},
    {"aten::copysign.Tensor", copysign},
    {"aten::cosh", cosh},
    {"aten::exp2", exp2},
    {"aten::hypot", hypot},
    {"aten::log10", logarithm<10>},
    {"aten::log2", logarithm<2>},
    {"aten::signbit", signbit},
    {"aten::sinh", sinh},
    {"aten::tan", tan},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> trigonometry_rules() { return kRules; }

}  // namespace torch_pjrt::lower
