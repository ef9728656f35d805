// Elementwise arithmetic.
#include <cmath>
#include <limits>
#include <numbers>

#include "lower/check.h"
#include "lower/exact.h"
#include "lower/extreme.h"
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
  const Tensor b = c.aligned(1);
  return a.dtype() == DType::kBool ? c.emit(Op::kAnd, {a, b}) : exact_product(c, a, b);
}

// Whether the remainder `r` of a division by `b` rounded to zero has to move by one divisor, to
// take its sign.
Tensor differs_in_sign(const Call& c, const Tensor& r, const Tensor& b) {
  const Tensor zero = c.splat_like(r, 0);
  const Tensor signs = c.compare(hlo::Direction::kNe, c.compare(hlo::Direction::kLt, r, zero),
                                 c.compare(hlo::Direction::kLt, b, zero));
  return c.emit(Op::kAnd, {c.compare(hlo::Direction::kNe, r, zero), signs});
}

// The remainder with the divisor's sign.
Tensor floor_remainder(const Call& c, const Tensor& a, const Tensor& b) {
  const Tensor r = c.emit(Op::kRemainder, {a, b});
  return c.select(differs_in_sign(c, r, b), c.emit(Op::kAdd, {r, b}), r);
}

Tensor times(const Call& c, const Tensor& t, ArgKey number) {
  if (c.scalar_class(number) == ScalarClass::kOne) return t;
  const Tensor factor = c.scalar(number, t.dtype());
  return c.emit(Op::kMultiply, {t, c.reorder(c.broadcast(factor, c.result().dims), t.order)});
}

// self + value * (tensor1 op tensor2).
template <Op op>
Results add_combined(const Call& c) {
  const Tensor first = c.aligned("tensor1");
  const Tensor second = c.aligned("tensor2");
  // In the order in which eager multiplies.
  const Tensor product = op == Op::kMultiply ? c.emit(op, {times(c, first, "value"), second})
                                             : times(c, c.emit(op, {first, second}), "value");
  return c.emit(Op::kAdd, {c.aligned("self"), product});
}

// start + weight * (end - start), from the nearer of the two.
Results lerp(const Call& c) {
  const Tensor start = c.aligned("self");
  const Tensor end = c.aligned("end");
  const Tensor difference = c.emit(Op::kSubtract, {end, start});
  const auto full = [&](const Tensor& t) {
    return c.reorder(c.broadcast(t, c.result().dims), start.order);
  };
  const Tensor weight = c.scalar("weight", start.dtype());
  const Tensor size = c.emit(Op::kAbs, {weight});
  const Tensor near_end = c.compare(hlo::Direction::kGe, size, c.splat_like(size, 0.5));
  const Tensor rest = c.emit(Op::kSubtract, {c.splat_like(weight, 1), weight});
  const Tensor from_start =
      c.emit(Op::kAdd, {start, c.emit(Op::kMultiply, {full(weight), difference})});
  const Tensor from_end =
      c.emit(Op::kSubtract, {end, c.emit(Op::kMultiply, {difference, full(rest)})});
  return c.select(full(near_end), from_end, from_start);
}

// copy(self, src): src as a tensor of self's type.
Results copy(const Call& c) { return c.aligned("src", c.result().dtype); }

Results remainder(const Call& c) { return floor_remainder(c, c.aligned(0), c.aligned(1)); }

Tensor truncated(const Call& c, const Tensor& x) {
  const Tensor negative = c.compare(hlo::Direction::kLt, x, c.splat_like(x, 0));
  return c.select(negative, c.emit(Op::kCeil, {x}), c.emit(Op::kFloor, {x}));
}

// The floor of a / b in floating point, from the exact remainder: a / b itself may be rounded up to
// an integer.
Tensor floor_quotient(const Call& c, const Tensor& a, const Tensor& b) {
  const Tensor quotient = c.emit(Op::kDivide, {a, b});
  const Tensor zero = c.splat_like(a, 0);
  const Tensor one = c.splat_like(a, 1);
  const Tensor r = c.emit(Op::kRemainder, {a, b});
  Tensor div = c.emit(Op::kDivide, {c.emit(Op::kSubtract, {a, r}), b});
  div = c.select(differs_in_sign(c, r, b), c.emit(Op::kSubtract, {div, one}), div);
  Tensor floor = c.emit(Op::kFloor, {div});
  const Tensor late =
      c.compare(hlo::Direction::kGt, c.emit(Op::kSubtract, {div, floor}), c.splat_like(div, 0.5));
  floor = c.select(late, c.emit(Op::kAdd, {floor, one}), floor);
  const Tensor is_zero = c.compare(hlo::Direction::kEq, div, zero);
  const Tensor rounded = c.select(is_zero, c.emit(Op::kMultiply, {quotient, zero}), floor);
  return c.select(c.compare(hlo::Direction::kEq, b, zero), quotient, rounded);
}

// Division rounded as `rounding_mode` says.
Results divide_mode(const Call& c) {
  const std::string mode = c.string_or("rounding_mode", "");
  const Tensor a = c.aligned(0);
  const Tensor b = c.aligned(1);
  if (mode == "floor" && is_floating(a.dtype())) return floor_quotient(c, a, b);
  const Tensor quotient = c.emit(Op::kDivide, {a, b});
  if (mode == "trunc" && is_floating(a.dtype())) {
    // Eager rounds the quotient of 16-bit tensors to their type before it truncates.
    const bool by_one_number = c.num_elements(1) == 1;
    const Tensor q = by_one_number ? quotient : c.convert(quotient, c.result().dtype);
    return truncated(c, c.convert(q, a.dtype()));
  }
  if (mode != "floor") return quotient;
  // The least integer divided by -1 wraps, so the remainder may not be taken off first.
  const Tensor moved = differs_in_sign(c, c.emit(Op::kRemainder, {a, b}), b);
  return c.emit(Op::kSubtract, {quotient, c.convert(moved, a.dtype())});
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
  // Eager takes the root of every type but f16; the two differ at -0 and minus infinity.
  if (std::fabs(e) == 0.5 && c.result().dtype == DType::kF16)
    return c.emit(Op::kPower, {base, c.splat(e)});
  if (e == 0.5) return c.emit(Op::kSqrt, {base});
  if (e == -0.5) return inverse_of(c.emit(Op::kSqrt, {base}));
  if (e == 1) return base;
  if (e == -1) return inverse_of(base);
  const Tensor square = times(base, base);
  if (e == -2) return inverse_of(square);
  if (e == 2) return exact_product(c, base, base);
  return exact_product(c, square, e == 3 ? base : square);
}

// Rounding of floating-point numbers; an integer is what it is.
template <Op op>
Results rounded(const Call& c) {
  const Tensor x = c.aligned(0);
  return is_floating(x.dtype()) ? c.emit(op, {x}) : x;
}

Results trunc(const Call& c) {
  const Tensor x = c.aligned(0);
  return is_floating(x.dtype()) ? truncated(c, x) : x;
}

// round(x * 10**decimals) / 10**decimals, the power as eager computes it.
Results round_decimals(const Call& c) {
  const Tensor x = c.aligned(0);
  if (!is_floating(x.dtype())) return x;
  const int64_t decimals = c.integer("decimals");
  const Tensor power = c.splat(std::pow(10.0, std::abs(static_cast<double>(decimals))));
  const Op up = decimals < 0 ? Op::kDivide : Op::kMultiply;
  const Op down = decimals < 0 ? Op::kMultiply : Op::kDivide;
  return c.emit(down, {c.emit(Op::kRoundNearestEven, {c.emit(up, {x, power})}), power});
}

Results absolute(const Call& c) {
  const Tensor x = c.aligned(0);
  return x.dtype() == DType::kU8 || x.dtype() == DType::kBool ? x : c.emit(Op::kAbs, {x});
}

// (x > 0) - (x < 0): 0 for NaN.
Results sign(const Call& c) {
  const Tensor x = c.aligned(0);
  if (x.dtype() == DType::kBool) return x;
  const Tensor zero = c.splat_like(x, 0);
  const auto is = [&](hlo::Direction d) { return c.convert(c.compare(d, x, zero), x.dtype()); };
  return c.emit(Op::kSubtract, {is(hlo::Direction::kGt), is(hlo::Direction::kLt)});
}

Tensor is_nan(const Call& c, const Tensor& x) { return c.compare(hlo::Direction::kNe, x, x); }

Results isnan(const Call& c) { return is_nan(c, c.aligned(0)); }

Results isinf(const Call& c) {
  const Tensor x = c.aligned(0);
  if (!is_floating(x.dtype())) return c.splat(0, DType::kBool);
  const Tensor infinity = c.splat_like(x, std::numeric_limits<double>::infinity());
  return c.compare(hlo::Direction::kEq, c.emit(Op::kAbs, {x}), infinity);
}

template <Op op>
Results extreme(const Call& c) {
  return extreme_of(c, op, c.aligned(0), c.aligned(1));
}

// The larger or smaller one, a number before NaN.
template <Op op>
Results number_first(const Call& c) {
  const Tensor a = c.aligned(0);
  const Tensor b = c.aligned(1);
  const Tensor extreme = c.emit(op, {a, b});
  if (!is_floating(a.dtype())) return extreme;
  return c.select(is_nan(c, a), b, c.select(is_nan(c, b), a, extreme));
}

Results relu(const Call& c) { return extreme_of(c, Op::kMaximum, c.aligned(0), c.splat(0)); }

// XLA's erf of f32 stays an ulp short of 1, and half of infinity times that is no NaN.
Tensor error_function(const Call& c, const Tensor& x) {
  Tensor erf = c.emit(Op::kErf, {x});
  if (x.dtype() != DType::kF32) return erf;
  const Tensor is_one = c.compare(hlo::Direction::kGe, c.emit(Op::kAbs, {x}), c.splat_like(x, 4));
  return c.select(is_one, c.emit(Op::kSign, {x}), erf);
}

Results erf(const Call& c) { return error_function(c, c.aligned(0)); }

// XLA's of f32 is off by dozens of ulps near 1, which gradients raise further.
Results erfinv(const Call& c) {
  const Tensor x = c.aligned(0);
  if (x.dtype() != DType::kF32) return c.emit(Op::kErfInverse, {x});
  return c.convert(c.emit(Op::kErfInverse, {c.convert(x, DType::kF64)}), DType::kF32);
}

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
  const Tensor scaled = c.emit(Op::kMultiply, {x, c.splat(std::numbers::sqrt2 / 2)});
  return c.emit(Op::kMultiply, {half, c.emit(Op::kAdd, {one, error_function(c, scaled)})});
}

Results where(const Call& c) {
  const DType dtype = c.result().dtype;
  return c.select(c.aligned(0, DType::kBool), c.aligned(1, dtype), c.aligned(2, dtype));
}

Results clamp(const Call& c) {
  Tensor x = c.aligned(0);
  if (!c.is_none("min")) x = extreme_of(c, Op::kMaximum, x, c.aligned("min"));
  if (!c.is_none("max")) x = extreme_of(c, Op::kMinimum, x, c.aligned("max"));
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
    {"aten::abs", absolute},
    {"aten::add.Scalar", scaled<Op::kAdd>},
    {"aten::add.Tensor", scaled<Op::kAdd>},
    {"aten::addcdiv", add_combined<Op::kDivide>},
    {"aten::addcmul", add_combined<Op::kMultiply>},
    {"aten::alias", same},
    {"aten::ceil", rounded<Op::kCeil>},
    {"aten::clamp", clamp},
    {"aten::clamp.Tensor", clamp},
    {"aten::clone", same},
    {"aten::copy", copy},
    {"aten::cos", unary<Op::kCosine>},
    {"aten::detach", same},
    {"aten::div.Scalar", binary<Op::kDivide>},
    {"aten::div.Scalar_mode", divide_mode, {}, zero_divisor},
    {"aten::div.Tensor", binary<Op::kDivide>},
    {"aten::div.Tensor_mode", divide_mode, {}, zero_divisor},
    {"aten::erf", erf},
    {"aten::erfc", unary<Op::kErfc>},
    {"aten::erfinv", erfinv},
    {"aten::exp", unary<Op::kExponential>},
    {"aten::expm1", unary<Op::kExponentialMinusOne>},
    {"aten::floor", rounded<Op::kFloor>},
    {"aten::fmax", number_first<Op::kMaximum>},
    {"aten::fmin", number_first<Op::kMinimum>},
    {"aten::fmod.Scalar", binary<Op::kRemainder>, {}, zero_divisor},
    {"aten::fmod.Tensor", binary<Op::kRemainder>, {}, zero_divisor},
    {"aten::gelu", gelu},
    {"aten::isinf", isinf},
    {"aten::isnan", isnan},
    {"aten::lerp.Scalar", lerp},
    {"aten::lift_fresh_copy", same},
    {"aten::log", unary<Op::kLog>},
    {"aten::log1p", unary<Op::kLogPlusOne>},
    {"aten::logical_and", logical<Op::kAnd>},
    {"aten::logical_not", logical_not},
    {"aten::logical_or", logical<Op::kOr>},
    {"aten::logical_xor", logical<Op::kXor>},
    {"aten::maximum", extreme<Op::kMaximum>},
    {"aten::minimum", extreme<Op::kMinimum>},
    {"aten::mul.Scalar", multiply},
    {"aten::mul.Tensor", multiply},
    {"aten::neg", unary<Op::kNegate>},
    {"aten::pow.Scalar", power},
    {"aten::pow.Tensor_Scalar", power, {{{"exponent", Role::kSmallExponent}}}},
    {"aten::pow.Tensor_Tensor", power},
    {"aten::reciprocal", reciprocal},
    {"aten::relu", relu},
    {"aten::remainder.Scalar", remainder, {}, zero_divisor},
    {"aten::remainder.Scalar_Tensor", remainder, {}, zero_divisor},
    {"aten::remainder.Tensor", remainder, {}, zero_divisor},
    {"aten::round", rounded<Op::kRoundNearestEven>},
    {"aten::round.decimals", round_decimals},
    {"aten::rsqrt", unary<Op::kRsqrt>},
    {"aten::sigmoid", unary<Op::kLogistic>},
    {"aten::sign", sign},
    {"aten::sin", unary<Op::kSine>},
    {"aten::sqrt", unary<Op::kSqrt>},
    {"aten::sub.Scalar", scaled<Op::kSubtract>},
    {"aten::sub.Tensor", scaled<Op::kSubtract>},
    {"aten::tanh", unary<Op::kTanh>},
    {"aten::true_divide.Tensor", binary<Op::kDivide>},
    {"aten::trunc", trunc},
    {"aten::where.self", where},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> pointwise_rules() { return kRules; }

}  // namespace torch_pjrt::lower
