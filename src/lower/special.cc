// Special functions that StableHLO's dialect of composed ops knows.
#include <limits>
#include <numbers>

#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

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
  const Tensor infinity = c.splat_like(x, std::numeric_limits<double>::infinity());
  const Tensor is_infinite = c.compare(hlo::Direction::kEq, high, infinity);
  const Tensor y =
      c.select(is_infinite, c.splat_like(x, 0), c.emit(Op::kPolygamma, {c.splat_like(x, 1), high}));
  const Tensor pi = c.splat_like(x, std::numbers::pi);
  const Tensor rest = c.emit(Op::kSubtract, {x, c.emit(Op::kRoundNearestEven, {x})});
  const Tensor sine = c.emit(Op::kSine, {c.emit(Op::kMultiply, {pi, rest})});
  const Tensor wave = c.emit(Op::kDivide, {square(pi), square(sine)});
  return c.select(is_low, c.emit(Op::kSubtract, {wave, y}), y);
}

Results polygamma(const Call& c) {
  const int64_t n = c.integer("n");
  if (n > 1) c.unsupported("n above 1", "compute it outside of the compiled function");
  return n == 0 ? digamma_of(c, c.aligned("self")) : trigamma(c, c.aligned("self"));
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
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> special_rules() { return kRules; }

}  // namespace torch_pjrt::lower
