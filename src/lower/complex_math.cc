// Ops that are other ones for complex numbers: functions written out in their parts where XLA's
// own differ from PyTorch at branch cuts, zeros, overflow and infinities.
#include <limits>

#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Parts {
  Tensor re;
  Tensor im;
};

// Arithmetic on tensors of one type and order.
class Arithmetic {
 public:
  explicit Arithmetic(const Call& call) : c_(call) {}

  Parts split(const Tensor& z) const { return {of(Op::kReal, z), of(Op::kImag, z)}; }
  Tensor join(const Tensor& re, const Tensor& im) const { return of(Op::kComplex, re, im); }
  Tensor number(const Tensor& like, double v) const { return c_.splat_like(like, v); }
  Tensor of(Op op, const Tensor& a) const { return c_.emit(op, {a}); }
  Tensor of(Op op, const Tensor& a, const Tensor& b) const { return c_.emit(op, {a, b}); }
  Tensor of(Op op, const Tensor& a, double b) const { return of(op, a, number(a, b)); }
  Tensor times(const Tensor& a, const Tensor& b) const { return of(Op::kMultiply, a, b); }
  Tensor times(const Tensor& a, double b) const { return of(Op::kMultiply, a, b); }
  Tensor is(const Tensor& a, hlo::Direction direction, double b) const {
    return c_.compare(direction, a, number(a, b));
  }
  Tensor is_zero(const Tensor& a) const { return is(a, hlo::Direction::kEq, 0); }
  Tensor is_infinite(const Tensor& a) const {
    return is(of(Op::kAbs, a), hlo::Direction::kEq, kInfinity);
  }
  Tensor either(const Tensor& a, const Tensor& b) const { return of(Op::kOr, a, b); }
  Tensor both(const Tensor& a, const Tensor& b) const { return of(Op::kAnd, a, b); }
  Tensor pick(const Tensor& condition, const Tensor& yes, const Tensor& no) const {
    return c_.select(condition, yes, no);
  }
  // Also of -0.
  Tensor has_sign(const Tensor& a) const {
    const DType bits = a.dtype() == DType::kF64 ? DType::kI64 : DType::kI32;
    return is({c_.build().bitcast_convert(a.value, bits), a.order}, hlo::Direction::kLt, 0);
  }
  Tensor with_sign(const Tensor& magnitude, const Tensor& sign) const {
    const Tensor size = of(Op::kAbs, magnitude);
    return pick(has_sign(sign), of(Op::kNegate, size), size);
  }

 private:
  const Call& c_;
};

// An infinite part makes the modulus infinite even if the other one is NaN.
Tensor modulus_or(const Arithmetic& m, const Parts& z, const Tensor& otherwise) {
  return m.pick(m.either(m.is_infinite(z.re), m.is_infinite(z.im)), m.number(z.re, kInfinity),
                otherwise);
}

Results absolute(const Call& c) {
  const Arithmetic m(c);
  const Tensor z = c.any_order(0);
  return modulus_or(m, m.split(z), m.of(Op::kAbs, z));
}

Tensor exponential(const Arithmetic& m, const Tensor& z) {
  const auto [x, y] = m.split(z);
  // In two steps, so that it overflows only where the result does.
  const Tensor root = m.of(Op::kExponential, m.times(x, 0.5));
  const auto part = [&](Op op) { return m.times(m.times(root, m.of(op, y)), root); };
  const Tensor im = m.pick(m.is_zero(y), y, part(Op::kSine));
  // At an infinite size, an angle that isn't finite leaves the size.
  const Tensor lost = m.both(m.is_infinite(x), m.of(Op::kNot, m.of(Op::kIsFinite, y)));
  const Tensor vanishes = m.both(lost, m.is(x, hlo::Direction::kLt, 0));
  const Tensor zero = m.number(x, 0);
  return m.join(m.pick(vanishes, zero, m.pick(lost, x, part(Op::kCosine))),
                m.pick(vanishes, zero, im));
}

Results exp(const Call& c) { return exponential(Arithmetic(c), c.aligned(0)); }

Results log(const Call& c) {
  const Arithmetic m(c);
  const Tensor z = c.aligned(0);
  const auto [re, im] = m.split(m.of(Op::kLog, z));
  return m.join(modulus_or(m, m.split(z), re), im);
}

Results log1p(const Call& c) {
  const Arithmetic m(c);
  const Tensor z = c.aligned(0);
  const auto [x, y] = m.split(z);
  const auto [re, im] = m.split(m.of(Op::kLogPlusOne, z));
  const Tensor at_pole = m.is(x, hlo::Direction::kEq, -1);
  return m.join(m.pick(at_pole, m.of(Op::kLog, m.of(Op::kAbs, y)), re), im);
}

// The root in the right half-plane, on the side of the branch cut that the sign of a zero tells.
Tensor root_of(const Arithmetic& m, const Tensor& z) {
  const auto [x, y] = m.split(z);
  const auto [re, im] = m.split(m.of(Op::kSqrt, z));
  const Tensor infinity = m.number(x, kInfinity);
  const Tensor tall = m.is_infinite(y);
  const Tensor right = m.is(x, hlo::Direction::kEq, kInfinity);
  const Tensor left = m.is(x, hlo::Direction::kEq, -kInfinity);
  return m.join(m.pick(m.either(tall, right), infinity, re),
                m.with_sign(m.pick(m.either(tall, left), infinity, im), y));
}

Results sqrt(const Call& c) { return root_of(Arithmetic(c), c.aligned(0)); }

// A zero divides as one without signs.
Tensor quotient(const Arithmetic& m, const Tensor& a, const Tensor& b) {
  return m.of(Op::kDivide, a, m.pick(m.is_zero(b), m.number(b, 0), b));
}

Results divide(const Call& c) { return quotient(Arithmetic(c), c.aligned(0), c.aligned(1)); }

Results reciprocal(const Call& c) { return quotient(Arithmetic(c), c.splat(1), c.aligned(0)); }

Results rsqrt(const Call& c) {
  const Arithmetic m(c);
  return quotient(m, c.splat(1), root_of(m, c.aligned(0)));
}

Results sigmoid(const Call& c) {
  const Arithmetic m(c);
  const Tensor e = exponential(m, m.of(Op::kNegate, c.aligned(0)));
  return quotient(m, c.splat(1), m.of(Op::kAdd, e, 1));
}

enum class Half : uint8_t { kSinh, kCosh };

// a * sinh(x) or a * cosh(x) for |a| <= 1: it overflows only where the product does, and a zero
// `a` stays one.
Tensor hyperbolic(const Arithmetic& m, Half half, const Tensor& a, const Tensor& x) {
  const Tensor size = m.of(Op::kAbs, x);
  const Tensor e = m.of(Op::kExponentialMinusOne, size);
  const Tensor inverse = m.of(Op::kDivide, e, m.of(Op::kAdd, e, 1));  // 1 - exp(-size)
  const Tensor near = half == Half::kSinh
                          ? m.times(m.of(Op::kAdd, e, inverse), 0.5)
                          : m.of(Op::kAdd, m.times(m.of(Op::kSubtract, e, inverse), 0.5), 1);
  const Tensor root = m.of(Op::kExponential, m.times(size, 0.5));
  const Tensor far = m.times(m.times(a, m.times(root, 0.5)), root);
  Tensor product =
      m.pick(m.is_zero(a), a, m.pick(m.is(size, hlo::Direction::kGt, 40), far, m.times(a, near)));
  if (half == Half::kCosh) return product;
  return m.pick(m.has_sign(x), m.of(Op::kNegate, product), product);
}

Tensor sinh_of(const Arithmetic& m, const Parts& z) {
  return m.join(hyperbolic(m, Half::kSinh, m.of(Op::kCosine, z.im), z.re),
                hyperbolic(m, Half::kCosh, m.of(Op::kSine, z.im), z.re));
}

Tensor cosh_of(const Arithmetic& m, const Parts& z) {
  return m.join(hyperbolic(m, Half::kCosh, m.of(Op::kCosine, z.im), z.re),
                hyperbolic(m, Half::kSinh, m.of(Op::kSine, z.im), z.re));
}

// i * z.
Parts turned(const Arithmetic& m, const Parts& z) { return {m.of(Op::kNegate, z.im), z.re}; }

Results sinh(const Call& c) {
  const Arithmetic m(c);
  return sinh_of(m, m.split(c.aligned(0)));
}

Results cosh(const Call& c) {
  const Arithmetic m(c);
  return cosh_of(m, m.split(c.aligned(0)));
}

// sin(z) = -i sinh(i z), tan(z) = -i tanh(i z), cos(z) = cosh(i z).
Results sin(const Call& c) {
  const Arithmetic m(c);
  const auto [re, im] = m.split(sinh_of(m, turned(m, m.split(c.aligned(0)))));
  return m.join(im, m.of(Op::kNegate, re));
}

Results cos(const Call& c) {
  const Arithmetic m(c);
  return cosh_of(m, turned(m, m.split(c.aligned(0))));
}

Results tan(const Call& c) {
  const Arithmetic m(c);
  const auto [x, y] = turned(m, m.split(c.aligned(0)));
  const auto [re, im] = m.split(m.of(Op::kTanh, m.join(x, y)));
  return m.join(im, m.of(Op::kNegate, re));
}

// |a|^re(b) exp(-im(b) arg(a)), turned by im(b) log|a| + re(b) arg(a).
Tensor power_of(const Arithmetic& m, const Tensor& a, const Tensor& b) {
  const auto [x, y] = m.split(a);
  const auto [re, im] = m.split(b);
  const Tensor size = m.of(Op::kAbs, a);
  const Tensor angle = m.of(Op::kAtan2, y, x);
  const Tensor log_size = m.of(Op::kLog, size);
  const Tensor shrinks = m.of(Op::kExponential, m.of(Op::kNegate, m.times(im, angle)));
  const Tensor modulus = m.times(m.of(Op::kPower, size, re), shrinks);
  // With a real exponent, 0 * infinity is no angle.
  const Tensor spin = m.pick(m.is_zero(im), im, m.times(im, log_size));
  const Tensor turn = m.of(Op::kAdd, spin, m.times(re, angle));
  const auto part = [&](Op op) { return m.times(modulus, m.of(op, turn)); };
  const Tensor power = m.join(part(Op::kCosine), m.pick(m.is_zero(turn), turn, part(Op::kSine)));
  // 0^b is 0 where b has a positive real part, 1 for 0^0, else nothing.
  const Tensor nan = m.number(a, std::numeric_limits<double>::quiet_NaN());
  const Tensor of_zero = m.pick(m.is(re, hlo::Direction::kGt, 0), m.number(a, 0),
                                m.pick(m.is_zero(b), m.number(a, 1), nan));
  return m.pick(m.is_zero(a), of_zero, power);
}

Results power(const Call& c) {
  const Arithmetic m(c);
  if (!c.is_structure(1)) return power_of(m, c.aligned(0), c.aligned(1));
  const Tensor z = c.aligned(0);
  const double exponent = c.number(1);
  const double size = exponent < 0 ? -exponent : exponent;
  Tensor result = size == 0.5 ? root_of(m, z) : z;
  if (size >= 2) result = m.times(z, z);
  if (size == 3) result = m.times(result, z);
  if (size == 4) result = m.times(result, result);
  return exponent < 0 ? quotient(m, m.number(z, 1), result) : result;
}

// To a real type, what the user asks for by name drops the imaginary part.
Results to_result_type(const Call& c) {
  const Tensor z = c.any_order(0);
  const DType dtype = c.result().dtype;
  const bool drops = is_complex(z.dtype()) && !is_complex(dtype) && dtype != DType::kBool;
  return c.convert(drops ? c.emit(Op::kReal, {z}) : z, dtype);
}

Results is_infinite(const Call& c) {
  const Arithmetic m(c);
  const auto [x, y] = m.split(c.any_order(0));
  return m.either(m.is_infinite(x), m.is_infinite(y));
}

constexpr Entry kRules[] = {
    {"aten::_to_copy", to_result_type},
    {"aten::abs", absolute},
    {"aten::cos", cos},
    {"aten::cosh", cosh},
    {"aten::div.Scalar", divide},
    {"aten::div.Tensor", divide},
    {"aten::exp", exp},
    {"aten::isinf", is_infinite},
    {"aten::log", log},
    {"aten::log1p", log1p},
    {"aten::pow.Scalar", power},
    {"aten::pow.Tensor_Scalar", power},
    {"aten::pow.Tensor_Tensor", power},
    {"aten::reciprocal", reciprocal},
    {"aten::rsqrt", rsqrt},
    {"aten::sigmoid", sigmoid},
    {"aten::sin", sin},
    {"aten::sinh", sinh},
    {"aten::sqrt", sqrt},
    {"aten::tan", tan},
    {"aten::true_divide.Tensor", divide},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> rules_of_complex() { return kRules; }

}  // namespace torch_pjrt::lower
