// Special functions that StableHLO's dialect of composed ops knows.
#include <limits>

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

// Where the derivatives of digamma are infinite: at whole numbers up to 0.
Tensor is_pole(const Call& c, const Tensor& x) {
  const Tensor is_whole = c.compare(hlo::Direction::kEq, c.emit(Op::kFloor, {x}), x);
  return c.emit(Op::kAnd, {is_whole, c.compare(hlo::Direction::kLe, x, c.splat_like(x, 0))});
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Results polygamma(const Call& c) {
  const Tensor x = c.aligned("self");
  const int64_t n = c.integer("n");
  if (n == 0) return digamma_of(c, x);
  const Tensor pole = c.splat_like(x, n % 2 == 0 ? -kInfinity : kInfinity);
  const Tensor order = c.splat_like(x, static_cast<double>(n));
  return c.select(is_pole(c, x), pole, c.emit(Op::kPolygamma, {order, x}));
}

// At the poles XLA has infinity for whole numbers x only.
Results zeta(const Call& c) {
  const Tensor x = c.aligned(0);
  const Tensor q = c.aligned(1);
  const Tensor converges = c.compare(hlo::Direction::kGt, x, c.splat_like(x, 1));
  const Tensor is_infinite = c.emit(Op::kAnd, {converges, is_pole(c, q)});
  return c.select(is_infinite, c.splat_like(x, kInfinity), c.emit(Op::kZeta, {x, q}));
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
