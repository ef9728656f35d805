// Elementwise arithmetic.
#include <numbers>

#include "lower/check.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

template <Op op>
Results unary(const Call& c) {
  return c.emit(op, {c.aligned(0)});
}

template <Op op>
Results binary(const Call& c) {
  return c.emit(op, {c.aligned(0), c.aligned(1)});
}

// self op alpha * other.
template <Op op>
Results scaled(const Call& c) {
  Tensor other = c.aligned(1);
  if (c.scalar_class("alpha") != ScalarClass::kOne) {
    const Tensor alpha = c.scalar("alpha", other.dtype());
    other =
        c.emit(Op::kMultiply, {other, c.reorder(c.broadcast(alpha, c.result().dims), other.order)});
  }
  const Tensor self = c.aligned(0);
  if (self.dtype() == DType::kBool) return c.emit(Op::kOr, {self, other});
  return c.emit(op, {self, other});
}

Results multiply(const Call& c) {
  const Tensor a = c.aligned(0);
  return c.emit(a.dtype() == DType::kBool ? Op::kAnd : Op::kMultiply, {a, c.aligned(1)});
}

// The remainder with the divisor's sign.
Tensor floor_remainder(const Call& c, const Tensor& a, const Tensor& b) {
  const Tensor zero = c.splat_like(a, 0);
  const Tensor r = c.emit(Op::kRemainder, {a, b});
  const Tensor unequal = c.compare(hlo::Direction::kNe, r, zero);
  const Tensor signs = c.compare(hlo::Direction::kNe, c.compare(hlo::Direction::kLt, r, zero),
                                 c.compare(hlo::Direction::kLt, b, zero));
  return c.select(c.emit(Op::kAnd, {unequal, signs}), c.emit(Op::kAdd, {r, b}), r);
}

// copy(self, src): src as a tensor of self's type.
Results copy(const Call& c) { return c.aligned("src", c.result().dtype); }

Results remainder(const Call& c) { return floor_remainder(c, c.aligned(0), c.aligned(1)); }

// Division rounded as `rounding_mode` says, in float as PyTorch does: from the exact remainder.
Results divide_mode(const Call& c) {
  const std::string mode = c.string_or("rounding_mode", "");
  const Tensor a = c.aligned(0);
  const Tensor b = c.aligned(1);
  const Tensor quotient = c.emit(Op::kDivide, {a, b});
  if (mode.empty()) return quotient;
  const Tensor zero = c.splat_like(a, 0);
  if (!is_floating(a.dtype())) {
    if (mode == "trunc") return quotient;
    const Tensor r = floor_remainder(c, a, b);
    return c.emit(Op::kDivide, {c.emit(Op::kSubtract, {a, r}), b});
  }
  if (mode == "trunc") {
    const Tensor negative = c.compare(hlo::Direction::kLt, quotient, zero);
    return c.select(negative, c.emit(Op::kCeil, {quotient}), c.emit(Op::kFloor, {quotient}));
  }
  const Tensor mod = c.emit(Op::kRemainder, {a, b});
  Tensor div = c.emit(Op::kDivide, {c.emit(Op::kSubtract, {a, mod}), b});
  const Tensor signs = c.compare(hlo::Direction::kNe, c.compare(hlo::Direction::kLt, mod, zero),
                                 c.compare(hlo::Direction::kLt, b, zero));
  const Tensor adjust = c.emit(Op::kAnd, {c.compare(hlo::Direction::kNe, mod, zero), signs});
  div = c.select(adjust, c.emit(Op::kSubtract, {div, c.splat_like(div, 1)}), div);
  Tensor floor = c.emit(Op::kFloor, {div});
  const Tensor late =
      c.compare(hlo::Direction::kGt, c.emit(Op::kSubtract, {div, floor}), c.splat_like(div, 0.5));
  floor = c.select(late, c.emit(Op::kAdd, {floor, c.splat_like(div, 1)}), floor);
  const Tensor is_zero = c.compare(hlo::Direction::kEq, div, zero);
  const Tensor rounded = c.select(is_zero, c.emit(Op::kMultiply, {quotient, zero}), floor);
  return c.select(c.compare(hlo::Direction::kEq, b, zero), quotient, rounded);
}

Results power(const Call& c) {
  const Tensor base = c.aligned(0);
  if (!c.is_structure(1)) return c.emit(Op::kPower, {base, c.aligned(1)});
  const double e = c.number(1);
  const auto times = [&](const Tensor& a, const Tensor& b) {
    return c.emit(Op::kMultiply, {a, b});
  };
  const auto inverse_of = [&](const Tensor& a) {
    return c.emit(Op::kDivide, {c.splat_like(a, 1), a});
  };
  if (e == 0.5) return c.emit(Op::kSqrt, {base});
  if (e == -0.5) return inverse_of(c.emit(Op::kSqrt, {base}));
  if (e == 1) return base;
  if (e == -1) return inverse_of(base);
  const Tensor square = times(base, base);
  if (e == 2) return square;
  if (e == -2) return inverse_of(square);
  return e == 3 ? times(square, base) : times(square, square);
}

Results relu(const Call& c) { return c.emit(Op::kMaximum, {c.aligned(0), c.splat(0)}); }

Results gelu(const Call& c) {
  const Tensor x = c.aligned(0);
  const Tensor half = c.emit(Op::kMultiply, {x, c.splat(0.5)});
  const Tensor one = c.splat(1);
  if (c.string_or("approximate", "none") == "tanh") {
    const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const Tensor cube = c.emit(Op::kMultiply, {c.emit(Op::kMultiply, {x, x}), x});
    const Tensor inner = c.emit(Op::kAdd, {x, c.emit(Op::kMultiply, {c.splat(0.044715), cube})});
    const Tensor t = c.emit(Op::kTanh, {c.emit(Op::kMultiply, {c.splat(beta), inner})});
    return c.emit(Op::kMultiply, {half, c.emit(Op::kAdd, {one, t})});
  }
  return c.emit(
      Op::kMultiply,
      {half,
       c.emit(Op::kAdd, {one, c.emit(Op::kErf, {c.emit(Op::kMultiply,
                                                       {x, c.splat(std::numbers::sqrt2 / 2)})})})});
}

Results where(const Call& c) {
  const DType dtype = c.result().dtype;
  return c.select(c.aligned(0, DType::kBool), c.aligned(1, dtype), c.aligned(2, dtype));
}

Results clamp(const Call& c) {
  Tensor x = c.aligned(0);
  if (!c.is_none("min")) x = c.emit(Op::kMaximum, {x, c.aligned("min")});
  if (!c.is_none("max")) x = c.emit(Op::kMinimum, {x, c.aligned("max")});
  return x;
}

Results logical_not(const Call& c) { return c.emit(Op::kNot, {c.aligned(0, DType::kBool)}); }

template <Op op>
Results logical(const Call& c) {
  return c.emit(op, {c.aligned(0, DType::kBool), c.aligned(1, DType::kBool)});
}

Results same(const Call& c) { return c.any_order(0); }
Results to_result_type(const Call& c) { return c.convert(c.any_order(0), c.result().dtype); }

Results reciprocal(const Call& c) { return c.emit(Op::kDivide, {c.splat(1), c.aligned(0)}); }

std::vector<Failure> zero_divisor(const Call& c) { return check_divisor(c, 1); }

constexpr Entry kRules[] = {
    {"aten::_to_copy", to_result_type},
    {"aten::abs", unary<Op::kAbs>},
    {"aten::add.Scalar", scaled<Op::kAdd>},
    {"aten::add.Tensor", scaled<Op::kAdd>},
    {"aten::alias", same},
    {"aten::bitwise_and.Tensor", binary<Op::kAnd>},
    {"aten::bitwise_not", unary<Op::kNot>},
    {"aten::bitwise_or.Tensor", binary<Op::kOr>},
    {"aten::bitwise_xor.Tensor", binary<Op::kXor>},
    {"aten::ceil", unary<Op::kCeil>},
    {"aten::clamp", clamp},
    {"aten::clone", same},
    {"aten::copy", copy},
    {"aten::cos", unary<Op::kCosine>},
    {"aten::detach", same},
    {"aten::div.Scalar", binary<Op::kDivide>},
    {"aten::div.Scalar_mode", divide_mode, {}, zero_divisor},
    {"aten::div.Tensor", binary<Op::kDivide>},
    {"aten::div.Tensor_mode", divide_mode, {}, zero_divisor},
    {"aten::erf", unary<Op::kErf>},
    {"aten::exp", unary<Op::kExponential>},
    {"aten::expm1", unary<Op::kExponentialMinusOne>},
    {"aten::floor", unary<Op::kFloor>},
    {"aten::gelu", gelu},
    {"aten::lift_fresh_copy", same},
    {"aten::log", unary<Op::kLog>},
    {"aten::log1p", unary<Op::kLogPlusOne>},
    {"aten::logical_and", logical<Op::kAnd>},
    {"aten::logical_not", logical_not},
    {"aten::logical_or", logical<Op::kOr>},
    {"aten::maximum", binary<Op::kMaximum>},
    {"aten::minimum", binary<Op::kMinimum>},
    {"aten::mul.Scalar", multiply},
    {"aten::mul.Tensor", multiply},
    {"aten::neg", unary<Op::kNegate>},
    {"aten::pow.Tensor_Scalar", power, {{{"exponent", Role::kSmallExponent}}}},
    {"aten::pow.Tensor_Tensor", power},
    {"aten::reciprocal", reciprocal},
    {"aten::relu", relu},
    {"aten::remainder.Scalar", remainder, {}, zero_divisor},
    {"aten::remainder.Tensor", remainder, {}, zero_divisor},
    {"aten::round", unary<Op::kRoundNearestEven>},
    {"aten::rsqrt", unary<Op::kRsqrt>},
    {"aten::sigmoid", unary<Op::kLogistic>},
    {"aten::sin", unary<Op::kSine>},
    {"aten::sqrt", unary<Op::kSqrt>},
    {"aten::sub.Scalar", scaled<Op::kSubtract>},
    {"aten::sub.Tensor", scaled<Op::kSubtract>},
    {"aten::tanh", unary<Op::kTanh>},
    {"aten::where.self", where},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> pointwise_rules() { return kRules; }

}  // namespace torch_pjrt::lower
