// The regularised incomplete gamma functions P(a, x) and Q = 1 - P, in double precision: a series
// below x = a + 1, a continued fraction beyond, and for large a the uniform asymptotic expansion.
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "lower/formula.h"

namespace torch_pjrt::lower {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargeA = 1000;
constexpr double kPrecision = 1e-16;
// Below kLargeA both end in far fewer.
constexpr int kMostSteps = 5000;

using Values = std::vector<Formula>;

// Steps until the last value is nowhere above kPrecision. `step` gets the step's number from 1.
Values repeated(const Values& start,
                const std::function<Values(const Formula&, const Values&)>& step) {
  const Call& c = start[0].call();
  hlo::Builder& b = c.build();
  const Tensor like = start[0].tensor();
  std::vector<hlo::Value> init = {b.constant(1, {DType::kI64, {}})};
  for (const Formula& f : start) init.push_back(f.tensor().value);
  const auto formulas = [&](std::span<const hlo::Value> state) {
    Values values;
    for (const hlo::Value& v : state.subspan(1)) values.emplace_back(c, Tensor{v, like.order});
    return values;
  };
  const auto goes_on = [&](std::span<const hlo::Value> state) -> std::vector<hlo::Value> {
    const Tensor open = (formulas(state).back() > kPrecision).tensor();
    const hlo::Value any = c.reduce(Op::kOr, open, 0, row_major(open.rank())).value;
    const hlo::Value most = b.constant(kMostSteps, {DType::kI64, {}});
    return {b.elementwise(Op::kAnd, {any, b.compare(hlo::Direction::kLe, state[0], most)})};
  };
  const auto next = [&](std::span<const hlo::Value> state) {
    const hlo::Value count = b.broadcast(state[0], like.value.type.dims, {});
    const Formula k(c, c.convert({count, like.order}, DType::kF64));
    const hlo::Value one = b.constant(1, {DType::kI64, {}});
    std::vector<hlo::Value> values = {b.elementwise(Op::kAdd, {state[0], one})};
    for (const Formula& f : step(k, formulas(state))) values.push_back(f.tensor().value);
    return values;
  };
  return formulas(b.while_loop(init, goes_on, next));
}

// P = x**a exp(-x) / gamma(a + 1) times the sum of x**k / ((a + 1) ... (a + k)).
Formula series_sum(const Formula& a, const Formula& x) {
  const Values start = {a.number(1), a.number(1)};
  const auto step = [&](const Formula& k, const Values& v) -> Values {
    const Formula term = v[1] * x / (a + k);
    return {v[0] + term, term};
  };
  return repeated(start, step)[0];
}

// Q = x**a exp(-x) / gamma(a) times 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), from the
// front.
Formula fraction(const Formula& a, const Formula& x) {
  const Formula first = x + 1 - a;
  const Values start = {1 / first, a.number(1e300), 1 / first, a.number(1)};
  const auto step = [&](const Formula& k, const Values& v) -> Values {
    const Formula numerator = k * (a - k);
    const Formula denominator = first + 2 * k;
    const Formula c = denominator + numerator / v[1];
    const Formula d = 1 / (denominator + numerator * v[2]);
    const Formula factor = c * d;
    return {v[0] * factor, c, d, abs(factor - 1)};
  };
  return repeated(start, step)[0];
}

Formula polynomial(const Formula& x, std::initializer_list<double> coefficients) {
  Formula sum = x.number(0);
  for (auto c = std::rbegin(coefficients); c != std::rend(coefficients); ++c) sum = sum * x + *c;
  return sum;
}

// u - log(1 + u).
Formula excess(const Formula& u) {
  const Formula near =
      u * u *
      polynomial(u, {1.0 / 2, -1.0 / 3, 1.0 / 4, -1.0 / 5, 1.0 / 6, -1.0 / 7, 1.0 / 8, -1.0 / 9,
                     1.0 / 10, -1.0 / 11, 1.0 / 12, -1.0 / 13, 1.0 / 14});
  return where(abs(u) < 0.05, near, u - apply(Op::kLogPlusOne, u));
}

// Q for large a: erfc of the distance from x = a and a correction, which only matters near there.
Formula asymptotic(const Formula& a, const Formula& x) {
  const Formula u = (x - a) / a;
  const Formula half_square = excess(u);
  const Formula size = sqrt(2 * half_square);
  const Formula eta = where(u < 0, -size, size);
  const Formula near = apply(Op::kMaximum, apply(Op::kMinimum, eta, eta.number(1)), eta.number(-1));
  const Formula c0 = polynomial(near, {-1.0 / 3, 1.0 / 12, -2.0 / 135, 1.0 / 864, 1.0 / 2835,
                                       -139.0 / 777600, 1.0 / 25515, -571.0 / 261273600});
  const Formula c1 =
      polynomial(near, {-1.0 / 540, -1.0 / 288, 1.0 / 378, -77.0 / 77760, 1.0 / 4860});
  const Formula c2 = polynomial(near, {25.0 / 6048, -139.0 / 51840});
  const Formula correction =
      exp(-a * half_square) / sqrt(2 * std::numbers::pi * a) * (c0 + (c1 + c2 / a) / a);
  return 0.5 * apply(Op::kErfc, eta * sqrt(0.5 * a)) + correction;
}

// P where `lower`, else Q.
template <bool lower>
Results incomplete(const Call& c) {
  const Formula a(c, c.aligned(0, DType::kF64));
  const Formula x(c, c.aligned(1, DType::kF64));
  const Formula is_inside = (a > 0) & (x > 0) & (a < kInfinity) & (x < kInfinity);
  const Formula is_large = is_inside & (a > kLargeA);
  const Formula is_low = is_inside & (a <= kLargeA) & (x < a + 1);
  const Formula is_high = is_inside & (a <= kLargeA) & (x >= a + 1);
  const Formula scale = exp(a * log(x) - x - apply(Op::kLgamma, a));
  const Formula p = scale / a * series_sum(where(is_low, a, 1), where(is_low, x, 1));
  const Formula q = scale * fraction(where(is_high, a, 1), where(is_high, x, 3));
  const Formula far = asymptotic(where(is_large, a, kLargeA), where(is_large, x, kLargeA));
  const Formula inside = lower ? where(is_low, p, 1 - where(is_large, far, q))
                               : where(is_low, 1 - p, where(is_large, far, q));
  const double none = lower ? 0 : 1;  // where P is 0
  const double all = 1 - none;
  const Formula at_infinity = where(a == kInfinity, where(x == kInfinity, kNan, x.number(none)),
                                    where(x == kInfinity, all, x.number(kNan)));
  const Formula at_zero =
      where(a == 0, where(x > 0, all, x.number(kNan)), where(x == 0, none, at_infinity));
  const Formula is_wrong = (x < 0) | (a < 0);
  return where(is_inside, inside, where(is_wrong, kNan, at_zero)).as(c.compute_dtype()).tensor();
}

constexpr Entry kRules[] = {
    {"aten::igamma", incomplete<true>},
    {"aten::igammac", incomplete<false>},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> incomplete_gamma_rules() { return kRules; }

}  // namespace torch_pjrt::lower
