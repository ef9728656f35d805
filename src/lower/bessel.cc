// Bessel functions of orders 0 and 1, and Airy's Ai: series in double precision, near the origin in
// x or x**2, and beyond in 1 / x.
#include <limits>
#include <numbers>

#include "lower/formula.h"

namespace torch_pjrt::lower {
namespace {

#include "lower/series.inc"

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

using Function = Formula (*)(const Formula& x);

template <Function function>
Results unary(const Call& c) {
  return function({c, c.aligned(0, DType::kF64)}).as(c.compute_dtype()).tensor();
}

// --- modified, of the first kind, times exp(-abs(x))

Formula i0_scaled(const Formula& x) {
  const Formula size = abs(x);
  return where(size <= 8, chebyshev_series(kI0Near, size / 8),
               chebyshev_series(kI0Far, 8 / size) / sqrt(size));
}

Formula i1_scaled(const Formula& x) {
  const Formula size = abs(x);
  const Formula far = chebyshev_series(kI1Far, 8 / size) / sqrt(size);
  return where(size <= 8, x * chebyshev_series(kI1Near, size / 8), where(x < 0, -far, far));
}

// exp(abs(x)) times a value that may be tiny: in two halves, which overflow later.
Formula unscaled(const Formula& value, const Formula& x) {
  const Formula root = exp(0.5 * abs(x));
  return root * value * root;
}

// NaN at infinity, as all from here on.
Formula i0(const Formula& x) { return unscaled(i0_scaled(x), x); }
Formula i1(const Formula& x) { return unscaled(i1_scaled(x), x); }

// --- modified, of the second kind, times exp(x)

// Of x below 0 it is NaN, at 0 infinite.
Formula with_pole(const Formula& x, const Formula& value, double at_zero) {
  return where(x == 0, at_zero, where(x < 0, kNan, value));
}

Formula k0_near(const Formula& x) {
  return chebyshev_series(kK0Near, 0.25 * x * x) - log(0.5 * x) * i0(x);
}
Formula k0_far(const Formula& x) { return chebyshev_series(kK0Far, 2 / x) / sqrt(x); }
Formula k1_near(const Formula& x) {
  return chebyshev_series(kK1Near, 0.25 * x * x) / x + log(0.5 * x) * i1(x);
}
Formula k1_far(const Formula& x) { return chebyshev_series(kK1Far, 2 / x) / sqrt(x); }

template <Function near, Function far, bool scaled>
Formula of_second_kind(const Formula& x) {
  const Formula low = scaled ? near(x) * exp(x) : near(x);
  const Formula high = scaled ? far(x) : exp(-x) * far(x);
  return with_pole(x, where(x <= 2, low, high), kInfinity);
}

// --- J and Y

// From 8 on they are waves, of which P and Q give the amplitude and the phase.
struct Wave {
  Formula p, q, angle, scale;
};

Wave wave(std::span<const double> p, std::span<const double> q, double order, const Formula& x) {
  const Formula s = 64 / (x * x);
  return {chebyshev_series(p, s), chebyshev_series(q, s) / x, x - (order / 2 + 0.25) * kPi,
          sqrt(2 / kPi / x)};
}

Formula cosine_of(const Wave& w) { return w.scale * (w.p * cos(w.angle) - w.q * sin(w.angle)); }
Formula sine_of(const Wave& w) { return w.scale * (w.p * sin(w.angle) + w.q * cos(w.angle)); }

Formula j0_near(const Formula& x) { return chebyshev_series(kJ0Near, x * x / 64); }
Formula j1_near(const Formula& x) { return x * chebyshev_series(kJ1Near, x * x / 64); }

Formula j0(const Formula& x) {
  const Formula size = abs(x);
  return where(size <= 8, j0_near(x), cosine_of(wave(kWave0P, kWave0Q, 0, size)));
}

Formula j1(const Formula& x) {
  const Formula size = abs(x);
  const Formula far = cosine_of(wave(kWave1P, kWave1Q, 1, size));
  return where(size <= 8, j1_near(x), where(x < 0, -far, far));
}

Formula y0(const Formula& x) {
  const Formula near = chebyshev_series(kY0Near, x * x / 64) + 2 / kPi * log(x) * j0_near(x);
  const Formula far = sine_of(wave(kWave0P, kWave0Q, 0, x));
  return with_pole(x, where(x <= 8, near, far), -kInfinity);
}

Formula y1(const Formula& x) {
  const Formula near =
      x * chebyshev_series(kY1Near, x * x / 64) + 2 / kPi * (log(x) * j1_near(x) - 1 / x);
  const Formula far = sine_of(wave(kWave1P, kWave1Q, 1, x));
  return with_pole(x, where(x <= 8, near, far), -kInfinity);
}

Formula spherical_j0(const Formula& x) {
  const Formula square = x * x;
  const Formula near = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)));
  const Formula value = where(abs(x) < 0.5, near, sin(x) / x);
  return where(abs(x) == kInfinity, 0, value);
}

// --- Airy

constexpr double kAiryFar = 4;          // in size
constexpr double kAiryFarZ = 16.0 / 3;  // 2/3 of its power of 3/2

Formula airy_ai(const Formula& x) {
  const Formula size = abs(x);
  const Formula root = sqrt(size);
  const Formula z = 2.0 / 3 * size * root;
  const Formula quarter = sqrt(root);
  const Formula near = chebyshev_series(kAiryNear, (x + kAiryFar) / (2 * kAiryFar));
  const Formula decay = exp(-z) / quarter * chebyshev_series(kAiryDecay, kAiryFarZ / z);
  const Formula s = kAiryFarZ * kAiryFarZ / (z * z);
  const Formula angle = z + kPi / 4;
  const Formula wave = (chebyshev_series(kAiryWaveP, s) * sin(angle) +
                        chebyshev_series(kAiryWaveQ, s) / z * cos(angle)) /
                       (quarter / std::numbers::inv_sqrtpi);
  return where(size <= kAiryFar, near, where(x > 0, where(size == kInfinity, kNan, decay), wave));
}

constexpr Entry kRules[] = {
    {"aten::i0", unary<i0>},
    {"aten::special_airy_ai", unary<airy_ai>},
    {"aten::special_bessel_j0", unary<j0>},
    {"aten::special_bessel_j1", unary<j1>},
    {"aten::special_bessel_y0", unary<y0>},
    {"aten::special_bessel_y1", unary<y1>},
    {"aten::special_i0e", unary<i0_scaled>},
    {"aten::special_i1", unary<i1>},
    {"aten::special_i1e", unary<i1_scaled>},
    {"aten::special_modified_bessel_i0", unary<i0>},
    {"aten::special_modified_bessel_i1", unary<i1>},
    {"aten::special_modified_bessel_k0", unary<of_second_kind<k0_near, k0_far, false>>},
    {"aten::special_modified_bessel_k1", unary<of_second_kind<k1_near, k1_far, false>>},
    {"aten::special_scaled_modified_bessel_k0", unary<of_second_kind<k0_near, k0_far, true>>},
    {"aten::special_scaled_modified_bessel_k1", unary<of_second_kind<k1_near, k1_far, true>>},
    {"aten::special_spherical_bessel_j0", unary<spherical_j0>},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> bessel_rules() { return kRules; }

}  // namespace torch_pjrt::lower
