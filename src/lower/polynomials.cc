// Orthogonal polynomials of a degree that is data, by their recurrences. They compute in the
// op's own type, so that they overflow where eager's do.
#include <limits>

#include "lower/formula.h"

namespace torch_pjrt::lower {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The polynomials of degree k and k - 1 give that of degree k + 1. `k`: like x.
using Step = Formula (*)(const Formula& x, const Formula& k, const Formula& last,
                         const Formula& before);

// The polynomial of degree n, an i64, where `open`: from degrees 0, which is 1, and 1. Else
// anything. It ends when all have theirs, or are NaN.
Formula by_recurrence(Step step, const Formula& x, const Formula& n, const Formula& first,
                      const Formula& open) {
  const Call& c = x.call();
  hlo::Builder& b = c.build();
  const Order order = x.tensor().order;
  const auto formula = [&](const hlo::Value& v) { return Formula(c, {v, order}); };
  const auto spread = [&](const hlo::Value& k) {
    return formula(b.broadcast(k, n.tensor().value.type.dims, {}));
  };
  const auto goes_on = [&](std::span<const hlo::Value> state) {
    return open & (spread(state[0]) < n) & !is_nan(formula(state[1]));
  };
  const auto any = [&](std::span<const hlo::Value> state) -> std::vector<hlo::Value> {
    const Tensor mask = goes_on(state).tensor();
    return {c.reduce(Op::kOr, mask, 0, row_major(mask.rank())).value};
  };
  const auto next = [&](std::span<const hlo::Value> state) -> std::vector<hlo::Value> {
    const Formula last = formula(state[1]);
    const Formula before = formula(state[2]);
    const Formula k = spread(state[0]).as(x.tensor().dtype());
    const Formula mask = goes_on(state);
    const hlo::Value one = b.constant(1, {DType::kI64, {}});
    return {b.elementwise(Op::kAdd, {state[0], one}),
            where(mask, step(x, k, last, before), last).tensor().value,
            where(mask, last, before).tensor().value};
  };
  const hlo::Value init[] = {b.constant(1, {DType::kI64, {}}), first.tensor().value,
                             x.number(1).tensor().value};
  const Formula value = formula(b.while_loop(init, any, next)[1]);
  return where(n < 0, 0, where(n == 0, 1, value));
}

struct Operands {
  Formula x, n;
};

Operands operands(const Call& c) {
  return {{c, c.aligned(0)}, Formula(c, c.aligned(1)).as(DType::kI64)};
}

// 1 at even degrees, -1 at odd ones.
Formula sign_of_degree(const Formula& x, const Formula& n) {
  const Formula odd = apply(Op::kAnd, n, n.number(1)) == 1;
  return where(odd, -1, x.number(1));
}

Formula chebyshev_step(const Formula& x, const Formula&, const Formula& last,
                       const Formula& before) {
  return (x + x) * last - before;
}

enum class Kind : uint8_t { kT, kU, kV, kW };

Formula degree_one(Kind kind, const Formula& x) {
  switch (kind) {
    case Kind::kT:
      return x;
    case Kind::kU:
      return x + x;
    case Kind::kV:
      return x + x - 1;
    case Kind::kW:
      return x + x + 1;
  }
  return x;
}

// Within (-1, 1), by the angle whose cosine x is.
Formula by_angle(Kind kind, const Formula& x, const Formula& degree) {
  const Formula angle = acos(x);
  const Formula half = 0.5 * angle;
  switch (kind) {
    case Kind::kT:
      return cos(degree * angle);
    case Kind::kU:
      return sin((degree + 1) * angle) / sin(angle);
    case Kind::kV:
      return cos((degree + 0.5) * angle) / cos(half);
    case Kind::kW:
      return sin((degree + 0.5) * angle) / sin(half);
  }
  return x;
}

// At 1; at -1 it is this times the sign of the degree, but for V and W, which change places.
Formula at_one(Kind kind, const Formula& degree) {
  switch (kind) {
    case Kind::kT:
      return degree.number(1);
    case Kind::kU:
      return degree + 1;
    case Kind::kV:
      return degree.number(1);
    case Kind::kW:
      return degree + degree + 1;
  }
  return degree;
}

Kind mirrored(Kind kind) {
  if (kind == Kind::kV) return Kind::kW;
  return kind == Kind::kW ? Kind::kV : kind;
}

// `angle_from`: the degree above which the angle is used.
template <Kind kind, int angle_from, bool shifted>
Results chebyshev(const Call& c) {
  const Operands o = operands(c);
  const Formula x = shifted ? o.x + o.x - 1 : o.x;
  const Formula degree = o.n.as(x.tensor().dtype());
  const Formula at_end = abs(x) == 1;
  const Formula has_angle = (abs(x) < 1) & (o.n > angle_from);
  const Formula end =
      where(x > 0, at_one(kind, degree), sign_of_degree(x, o.n) * at_one(mirrored(kind), degree));
  const Formula value =
      by_recurrence(chebyshev_step, x, o.n, degree_one(kind, x), !(at_end | has_angle));
  return where((o.n >= 0) & at_end, end, where(has_angle, by_angle(kind, x, degree), value))
      .tensor();
}

// Beyond this degree eager's is NaN.
double greatest_degree(DType dtype) { return dtype == DType::kF64 ? 512 : 128; }

template <Step step, int slope>
Results hermite(const Call& c) {
  const Operands o = operands(c);
  const Formula beyond = o.n > greatest_degree(o.x.tensor().dtype());
  const Formula value = by_recurrence(step, o.x, o.n, slope * o.x, !beyond);
  return where(beyond, kNan, value).tensor();
}

Formula hermite_h_step(const Formula& x, const Formula& k, const Formula& last,
                       const Formula& before) {
  return (x + x) * last - (k + k) * before;
}
Formula hermite_he_step(const Formula& x, const Formula& k, const Formula& last,
                        const Formula& before) {
  return x * last - k * before;
}

Formula laguerre_step(const Formula& x, const Formula& k, const Formula& last,
                      const Formula& before) {
  return ((k + k + (1 - x)) * last - k * before) / (k + 1);
}

Results laguerre(const Call& c) {
  const Operands o = operands(c);
  const Formula is_zero = o.x == 0;
  const Formula value = by_recurrence(laguerre_step, o.x, o.n, 1 - o.x, !is_zero);
  return where((o.n >= 0) & is_zero, 1, value).tensor();
}

Formula legendre_step(const Formula& x, const Formula& k, const Formula& last,
                      const Formula& before) {
  return ((k + k + 1) * x * last - k * before) / (k + 1);
}

Results legendre(const Call& c) {
  const Operands o = operands(c);
  const Formula at_end = abs(o.x) == 1;
  const Formula end = where(o.x > 0, 1, sign_of_degree(o.x, o.n));
  const Formula value = by_recurrence(legendre_step, o.x, o.n, o.x, !at_end);
  return where((o.n >= 0) & at_end, end, value).tensor();
}

constexpr Rule kT = chebyshev<Kind::kT, 6, false>;
constexpr Rule kU = chebyshev<Kind::kU, 8, false>;
constexpr Rule kV = chebyshev<Kind::kV, 8, false>;
constexpr Rule kW = chebyshev<Kind::kW, 8, false>;
constexpr Rule kShiftedT = chebyshev<Kind::kT, 6, true>;
constexpr Rule kShiftedU = chebyshev<Kind::kU, 6, true>;
constexpr Rule kShiftedV = chebyshev<Kind::kV, 6, true>;
constexpr Rule kShiftedW = chebyshev<Kind::kW, 4, true>;
constexpr Rule kHermiteH = hermite<hermite_h_step, 2>;
constexpr Rule kHermiteHe = hermite<hermite_he_step, 1>;

constexpr Entry kRules[] = {
    {"aten::special_chebyshev_polynomial_t", kT},
    {"aten::special_chebyshev_polynomial_t.n_scalar", kT},
    {"aten::special_chebyshev_polynomial_t.x_scalar", kT},
    {"aten::special_chebyshev_polynomial_u", kU},
    {"aten::special_chebyshev_polynomial_u.n_scalar", kU},
    {"aten::special_chebyshev_polynomial_u.x_scalar", kU},
    {"aten::special_chebyshev_polynomial_v", kV},
    {"aten::special_chebyshev_polynomial_v.n_scalar", kV},
    {"aten::special_chebyshev_polynomial_v.x_scalar", kV},
    {"aten::special_chebyshev_polynomial_w", kW},
    {"aten::special_chebyshev_polynomial_w.n_scalar", kW},
    {"aten::special_chebyshev_polynomial_w.x_scalar", kW},
    {"aten::special_hermite_polynomial_h", kHermiteH},
    {"aten::special_hermite_polynomial_h.n_scalar", kHermiteH},
    {"aten::special_hermite_polynomial_h.x_scalar", kHermiteH},
    {"aten::special_hermite_polynomial_he", kHermiteHe},
    {"aten::special_hermite_polynomial_he.n_scalar", kHermiteHe},
    {"aten::special_hermite_polynomial_he.x_scalar", kHermiteHe},
    {"aten::special_laguerre_polynomial_l", laguerre},
    {"aten::special_laguerre_polynomial_l.n_scalar", laguerre},
    {"aten::special_laguerre_polynomial_l.x_scalar", laguerre},
    {"aten::special_legendre_polynomial_p", legendre},
    {"aten::special_legendre_polynomial_p.n_scalar", legendre},
    {"aten::special_legendre_polynomial_p.x_scalar", legendre},
    {"aten::special_shifted_chebyshev_polynomial_t", kShiftedT},
    {"aten::special_shifted_chebyshev_polynomial_t.n_scalar", kShiftedT},
    {"aten::special_shifted_chebyshev_polynomial_t.x_scalar", kShiftedT},
    {"aten::special_shifted_chebyshev_polynomial_u", kShiftedU},
    {"aten::special_shifted_chebyshev_polynomial_u.n_scalar", kShiftedU},
    {"aten::special_shifted_chebyshev_polynomial_u.x_scalar", kShiftedU},
    {"aten::special_shifted_chebyshev_polynomial_v", kShiftedV},
    {"aten::special_shifted_chebyshev_polynomial_v.n_scalar", kShiftedV},
    {"aten::special_shifted_chebyshev_polynomial_v.x_scalar", kShiftedV},
    {"aten::special_shifted_chebyshev_polynomial_w", kShiftedW},
    {"aten::special_shifted_chebyshev_polynomial_w.n_scalar", kShiftedW},
    {"aten::special_shifted_chebyshev_polynomial_w.x_scalar", kShiftedW},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> polynomial_rules() { return kRules; }

}  // namespace torch_pjrt::lower
