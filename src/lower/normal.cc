// Functions of the normal distribution beyond erf, in double precision.
#include <limits>

#include "lower/formula.h"

namespace torch_pjrt::lower {
namespace {

#include "lower/series.inc"

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// exp(x**2) erfc(x).
Results erfcx(const Call& c) {
  const Formula x(c, c.aligned(0, DType::kF64));
  const Formula size = abs(x);
  const Formula series = chebyshev_series(kErfcx, size / (size + 3.75)) / (1 + 2 * size);
  const Formula high = where(size == kInfinity, 0, series);
  return where(x < 0, 2 * exp(x * x) - high, high).as(c.compute_dtype()).tensor();
}

// The quantile of probability p.
Results ndtri(const Call& c) {
  const Formula p(c, c.aligned(0, DType::kF64));
  const Formula v = p - 0.5;
  const Formula central = v * chebyshev_series(kQuantileCentral, v * v / (0.375 * 0.375));
  const Formula z = sqrt(-2 * log(where(v < 0, p, 1 - p)));
  const Formula low = where(z <= 8, chebyshev_series(kQuantileTail, (z - 2) / 6),
                            chebyshev_series(kQuantileFarTail, (z - 8) / 32)) -
                      z;
  const Formula tail = where(v < 0, low, -low);
  const Formula inside = where(abs(v) <= 0.375, central, tail);
  const Formula end = where(p == 0, -kInfinity, where(p == 1, kInfinity, p.number(kNan)));
  return where((p > 0) & (p < 1), inside, end).as(c.compute_dtype()).tensor();
}

constexpr Entry kRules[] = {
    {"aten::special_erfcx", erfcx},
    {"aten::special_ndtri", ndtri},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> normal_rules() { return kRules; }

}  // namespace torch_pjrt::lower
