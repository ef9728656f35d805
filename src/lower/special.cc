// Special functions that StableHLO's dialect of composed ops knows.
#include <cmath>
#include <limits>
#include <numbers>

#include "lower/formula.h"

namespace torch_pjrt::lower {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <Op op>
Results unary(const Call& c) {
  return c.emit(op, {c.aligned(0)});
}

// At 0 XLA has NaN; eager has the limit from the side that the zero's sign names.
Tensor digamma_of(const Call& c, const Tensor& x) {
  const Tensor is_zero = c.compare(hlo::Direction::kEq, x, c.splat_like(x, 0));
  return c.select(is_zero, c.emit(Op::kDivide, {c.splat_like(x, -1), x}),
                  c.emit(Op::kDigamma, {x}));
}

Results digamma(const Call& c) { return digamma_of(c, c.aligned(0)); }

// By reflection below a half: there XLA's series is wrong. At whole numbers up to 0 it is infinite.
Tensor trigamma(const Call& c, const Tensor& x) {
  const auto square = [&](const Tensor& t) { return c.emit(Op::kMultiply, {t, t}); };
  const Tensor is_low = c.compare(hlo::Direction::kLt, x, c.splat_like(x, 0.5));
  const Tensor reflected = c.emit(Op::kSubtract, {c.splat_like(x, 1), x});
  const Tensor high = c.select(is_low, reflected, x);
  const Tensor infinity = c.splat_like(x, kInfinity);
  const Tensor is_infinite = c.compare(hlo::Direction::kEq, high, infinity);
  const Tensor y =
      c.select(is_infinite, c.splat_like(x, 0), c.emit(Op::kPolygamma, {c.splat_like(x, 1), high}));
  const Tensor pi = c.splat_like(x, std::numbers::pi);
  const Tensor rest = c.emit(Op::kSubtract, {x, c.emit(Op::kRoundNearestEven, {x})});
  const Tensor sine = c.emit(Op::kSine, {c.emit(Op::kMultiply, {pi, rest})});
  const Tensor wave = c.emit(Op::kDivide, {square(pi), square(sine)});
  return c.select(is_low, c.emit(Op::kSubtract, {wave, y}), y);
}

// The sum of (q + k)**-x for all k from 0 on. XLA's is right for q above 0; below, an even or odd x
// makes of the terms at negative numbers two more such sums.
Formula zeta_of(const Formula& x, const Formula& q) {
  const Formula is_low = (q <= 0) & (q != -kInfinity);
  const Formula whole = floor(q);
  const Formula rest = where(is_low, q - whole, q);
  const Formula ends = where(is_low, 1 - q, 1);
  const Formula below =
      apply(Op::kZeta, x, where(is_low, whole + 1 - q, 1)) - apply(Op::kZeta, x, ends);
  const Formula is_even = floor(0.5 * x) == 0.5 * x;
  const Formula sum = apply(Op::kZeta, x, rest) + where(is_low, where(is_even, below, -below), 0);
  const Formula value = where(x > 1e10, apply(Op::kPower, rest, -x), sum);  // the first term
  const Formula at_pole = (q <= 0) & (q == whole);
  const Formula is_complex = (q <= 0) & (x != floor(x));
  const Formula inside = where(at_pole, kInfinity, where(is_complex, kNan, value));
  return where(x == 1, kInfinity, where(x < 1, kNan, inside));
}

Results zeta(const Call& c) {
  const Formula x(c, c.aligned(0, DType::kF64));
  const Formula q(c, c.aligned(1, DType::kF64));
  return zeta_of(x, q).as(c.compute_dtype()).tensor();
}

Results polygamma(const Call& c) {
  const int64_t n = c.integer("n");
  const Tensor x = c.aligned("self");
  if (n == 0) return digamma_of(c, x);
  if (n == 1) return trigamma(c, x);
  const Formula wide = Formula(c, x).as(DType::kF64);
  const double factor = (n % 2 == 1 ? 1 : -1) * std::tgamma(static_cast<double>(n) + 1);
  const Formula y = factor * zeta_of(wide.number(static_cast<double>(n) + 1), wide);
  return y.as(x.dtype()).tensor();
}

// In the result's own type: the next number of another type isn't the next one.
Results next_after(const Call& c) {
  const DType dtype = c.result().dtype;
  return c.emit(Op::kNextAfter, {c.aligned(0, dtype), c.aligned(1, dtype)});
}

constexpr Entry kRules[] = {
    {"aten::digamma", digamma},
    {"aten::lgamma", unary<Op::kLgamma>},
    {"aten::nextafter", next_after},
    {"aten::polygamma", polygamma},
    {"aten::special_zeta", zeta},
    {"aten::special_zeta.other_scalar", zeta},
    {"aten::special_zeta.self_scalar", zeta},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> special_rules() { return kRules; }

}  // namespace torch_pjrt::lower
