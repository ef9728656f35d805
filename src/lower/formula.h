// Formulas over the elements of tensors, in operators. All operands of one have one type and order.
#pragma once

#include <span>
#include <utility>

#include "lower/rule.h"

namespace torch_pjrt::lower {

class Formula {
 public:
  Formula(const Call& c, Tensor t) : c_(&c), t_(std::move(t)) {}

  const Call& call() const { return *c_; }
  const Tensor& tensor() const { return t_; }
  // A constant like this one.
  Formula number(double value) const { return {*c_, c_->splat_like(t_, value)}; }
  Formula as(DType dtype) const { return {*c_, c_->convert(t_, dtype)}; }

 private:
  const Call* c_;
  Tensor t_;
};

inline Formula apply(Op op, const Formula& a) {
  return {a.call(), a.call().emit(op, {a.tensor()})};
}
inline Formula apply(Op op, const Formula& a, const Formula& b) {
  return {a.call(), a.call().emit(op, {a.tensor(), b.tensor()})};
}
inline Formula compare(hlo::Direction direction, const Formula& a, const Formula& b) {
  return {a.call(), a.call().compare(direction, a.tensor(), b.tensor())};
}

inline Formula operator-(const Formula& a) { return apply(Op::kNegate, a); }
// Of bools.
inline Formula operator!(const Formula& a) { return apply(Op::kNot, a); }

// A binary operator of two formulas, or of one and a number.
#define TORCH_PJRT_OPERATOR(symbol, function, name)                    \
  inline Formula operator symbol(const Formula& a, const Formula& b) { \
    return function(name, a, b);                                       \
  }                                                                    \
  inline Formula operator symbol(const Formula& a, double b) {         \
    return function(name, a, a.number(b));                             \
  }                                                                    \
  inline Formula operator symbol(double a, const Formula& b) {         \
    return function(name, b.number(a), b);                             \
  }

TORCH_PJRT_OPERATOR(+, apply, Op::kAdd)
TORCH_PJRT_OPERATOR(-, apply, Op::kSubtract)
TORCH_PJRT_OPERATOR(*, apply, Op::kMultiply)
TORCH_PJRT_OPERATOR(/, apply, Op::kDivide)
TORCH_PJRT_OPERATOR(&, apply, Op::kAnd)
TORCH_PJRT_OPERATOR(|, apply, Op::kOr)
TORCH_PJRT_OPERATOR(<, compare, hlo::Direction::kLt)
TORCH_PJRT_OPERATOR(<=, compare, hlo::Direction::kLe)
TORCH_PJRT_OPERATOR(>, compare, hlo::Direction::kGt)
TORCH_PJRT_OPERATOR(>=, compare, hlo::Direction::kGe)
TORCH_PJRT_OPERATOR(==, compare, hlo::Direction::kEq)
TORCH_PJRT_OPERATOR(!=, compare, hlo::Direction::kNe)
#undef TORCH_PJRT_OPERATOR

inline Formula abs(const Formula& a) { return apply(Op::kAbs, a); }
inline Formula cos(const Formula& a) { return apply(Op::kCosine, a); }
inline Formula exp(const Formula& a) { return apply(Op::kExponential, a); }
inline Formula floor(const Formula& a) { return apply(Op::kFloor, a); }
inline Formula log(const Formula& a) { return apply(Op::kLog, a); }
inline Formula sin(const Formula& a) { return apply(Op::kSine, a); }
inline Formula sqrt(const Formula& a) { return apply(Op::kSqrt, a); }
inline Formula is_nan(const Formula& a) { return a != a; }
// Square roots without cancellation near the ends, as the rule of acos has it.
inline Formula acos(const Formula& a) {
  return 2 * apply(Op::kAtan2, sqrt((1 - a) * (1 + a)), 1 + a);
}

inline Formula where(const Formula& condition, const Formula& a, const Formula& b) {
  return {a.call(), a.call().select(condition.tensor(), a.tensor(), b.tensor())};
}
inline Formula where(const Formula& condition, const Formula& a, double b) {
  return where(condition, a, a.number(b));
}
inline Formula where(const Formula& condition, double a, const Formula& b) {
  return where(condition, b.number(a), b);
}

// The sum of coefficients[k] T_k(2 s - 1), for s in [0, 1].
inline Formula chebyshev_series(std::span<const double> coefficients, const Formula& s) {
  const Formula twice = 4 * s - 2;
  Formula next = s.number(0);
  Formula sum = s.number(0);
  for (size_t k = coefficients.size() - 1; k > 0; --k) {
    const Formula before = next;
    next = sum;
    sum = twice * sum - before + coefficients[k];
  }
  return 0.5 * twice * sum - next + coefficients[0];
}

}  // namespace torch_pjrt::lower
