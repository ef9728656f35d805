// Elementwise ops: their table, comparison and conversion.
#include <array>

#include "hlo/builder.h"
#include "hlo/require.h"

namespace torch_pjrt::hlo {
namespace {

// Element types that an op takes.
enum Takes : uint8_t {
  kBools = 1,
  kUnsigned = 2,
  kSigned = 4,
  kHalves = 8,
  kWideFloats = 16,
  kComplexes = 32
};
constexpr int kIntegers = kUnsigned | kSigned;
constexpr int kBits = kBools | kIntegers;
constexpr int kFloats = kHalves | kWideFloats;
constexpr int kReals = kIntegers | kFloats;
constexpr int kNumbers = kReals | kComplexes;
constexpr int kInexact = kFloats | kComplexes;
constexpr int kAll = kBools | kNumbers;

struct Facts {
  Op op;
  const char* name;
  size_t arity;
  int takes;
};

constexpr Facts kFacts[] = {
    {Op::kAbs, "abs", 1, kSigned | kInexact},
    {Op::kAdd, "add", 2, kAll},
    {Op::kAnd, "and", 2, kBits},
    {Op::kAtan2, "atan2", 2, kFloats},
    {Op::kCbrt, "cbrt", 1, kFloats},
    {Op::kCeil, "ceil", 1, kFloats},
    {Op::kClamp, "clamp", 3, kReals},
    {Op::kComplex, "complex", 2, kWideFloats},
    {Op::kCosine, "cosine", 1, kInexact},
    {Op::kCountLeadingZeros, "count_leading_zeros", 1, kIntegers},
    {Op::kDigamma, "digamma", 1, kFloats},
    {Op::kDivide, "divide", 2, kNumbers},
    {Op::kErf, "erf", 1, kFloats},
    {Op::kErfInverse, "erf_inv", 1, kFloats},
    {Op::kErfc, "erfc", 1, kFloats},
    {Op::kExponential, "exponential", 1, kInexact},
    {Op::kExponentialMinusOne, "exponential_minus_one", 1, kInexact},
    {Op::kFloor, "floor", 1, kFloats},
    {Op::kImag, "imag", 1, kComplexes},
    {Op::kIsFinite, "is_finite", 1, kFloats},
    {Op::kLgamma, "lgamma", 1, kFloats},
    {Op::kLog, "log", 1, kInexact},
    {Op::kLogPlusOne, "log_plus_one", 1, kInexact},
    {Op::kLogistic, "logistic", 1, kInexact},
    {Op::kMaximum, "maximum", 2, kBools | kReals},
    {Op::kMinimum, "minimum", 2, kBools | kReals},
    {Op::kMultiply, "multiply", 2, kAll},
    {Op::kNegate, "negate", 1, kNumbers},
    {Op::kNextAfter, "next_after", 2, kFloats},
    {Op::kNot, "not", 1, kBits},
    {Op::kOr, "or", 2, kBits},
    {Op::kPolygamma, "polygamma", 2, kFloats},
    {Op::kPopcnt, "popcnt", 1, kIntegers},
    {Op::kPower, "power", 2, kNumbers},
    {Op::kReal, "real", 1, kComplexes},
    {Op::kRemainder, "remainder", 2, kReals},
    {Op::kRoundNearestAfz, "round_nearest_afz", 1, kFloats},
    {Op::kRoundNearestEven, "round_nearest_even", 1, kFloats},
    {Op::kRsqrt, "rsqrt", 1, kInexact},
    {Op::kSelect, "select", 3, kAll},
    {Op::kShiftLeft, "shift_left", 2, kIntegers},
    {Op::kShiftRightArithmetic, "shift_right_arithmetic", 2, kIntegers},
    {Op::kShiftRightLogical, "shift_right_logical", 2, kIntegers},
    {Op::kSign, "sign", 1, kSigned | kFloats},
    {Op::kSine, "sine", 1, kInexact},
    {Op::kSqrt, "sqrt", 1, kInexact},
    {Op::kSubtract, "subtract", 2, kNumbers},
    {Op::kTan, "tan", 1, kInexact},
    {Op::kTanh, "tanh", 1, kInexact},
    {Op::kXor, "xor", 2, kBits},
    {Op::kZeta, "zeta", 2, kFloats},
};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kFacts); ++i) {
    if (kFacts[i].op != static_cast<Op>(i)) return false;
  }
  return std::size(kFacts) == static_cast<size_t>(Op::kZeta) + 1;
}
static_assert(in_order());

int kind(DType dtype) {
  if (dtype == DType::kBool) return kBools;
  if (dtype == DType::kU8) return kUnsigned;
  if (is_complex(dtype)) return kComplexes;
  if (is_integer(dtype)) return kSigned;
  return opmath(dtype) == dtype ? kWideFloats : kHalves;
}

// A limit of HLO that a program may run into, and no fault of the rule.
void require_takes(bool takes, const char* what, DType dtype) {
  if (takes || !is_complex(dtype)) return;
  fail(Code::kUnsupported, "no ", what,
       " for complex numbers; their parts, x.real and x.imag, may do");
}

DType result_of(Op op, DType operands) {
  switch (op) {
    case Op::kIsFinite:
      return DType::kBool;
    case Op::kComplex:
      return to_complex(operands);
    case Op::kAbs:
    case Op::kReal:
    case Op::kImag:
      return part(operands);
    default:
      return operands;
  }
}

}  // namespace

Value Builder::elementwise(Op op, std::span<const Value> operands) {
  const Facts& facts = kFacts[static_cast<size_t>(op)];
  require(operands.size() == facts.arity, facts.name, operands, "it takes ", facts.arity,
          " operands");
  const Type& type = operands[facts.arity == 1 ? 0 : 1].type;
  require_takes(kind(type.dtype) & facts.takes, facts.name, type.dtype);
  require(kind(type.dtype) & facts.takes, facts.name, operands, "it doesn't take ",
          name(type.dtype));
  const auto fits = [&](const Value& v, DType dtype, bool scalar_too) {
    require(v.type.dtype == dtype && (v.type.dims == type.dims || (scalar_too && !v.type.rank())),
            facts.name, operands, "its operands don't fit each other");
  };
  if (op == Op::kSelect) {
    fits(operands[0], DType::kBool, true);
    fits(operands[2], type.dtype, false);
  } else if (op == Op::kClamp) {
    fits(operands[0], type.dtype, true);
    fits(operands[2], type.dtype, true);
  } else {
    for (const Value& v : operands) fits(v, type.dtype, false);
  }
  return one(facts.name, operands, {}, {result_of(op, type.dtype), type.dims});
}

Value Builder::elementwise(Op op, std::initializer_list<Value> operands) {
  return elementwise(op, std::span<const Value>(operands.begin(), operands.size()));
}

Value Builder::compare(Direction direction, const Value& a, const Value& b) {
  constexpr std::array kDirections = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  const Value operands[] = {a, b};
  require(a.type == b.type, "compare", operands, "its operands are of different types");
  const int kind_of_a = kind(a.type.dtype);
  const bool is_ordering = direction != Direction::kEq && direction != Direction::kNe;
  require_takes(!is_ordering, "order", a.type.dtype);
  const std::string type = kind_of_a & kInexact   ? "FLOAT"
                           : kind_of_a == kSigned ? "SIGNED"
                                                  : "UNSIGNED";
  return one("compare", operands,
             {{"compare_type", "#stablehlo<comparison_type " + type + ">"},
              {"comparison_direction", std::string("#stablehlo<comparison_direction ") +
                                           kDirections[static_cast<size_t>(direction)] + ">"}},
             {DType::kBool, a.type.dims});
}

Value Builder::convert(const Value& v, DType dtype) {
  if (v.type.dtype == dtype) return v;
  require(!is_complex(v.type.dtype) || is_complex(dtype), "convert", only(v), "to ", name(dtype),
          " would drop the imaginary part");
  return one("convert", only(v), {}, {dtype, v.type.dims});
}

Value Builder::bitcast_convert(const Value& v, DType dtype) {
  if (v.type.dtype == dtype) return v;
  const int64_t from = bit_width(v.type.dtype);
  const int64_t to = bit_width(dtype);
  Dims dims = v.type.dims;
  if (from > to) {
    require(from % to == 0, "bitcast_convert", only(v), "to ", name(dtype));
    dims.push_back(from / to);
  } else if (from < to) {
    require(!dims.empty() && dims.back() * from == to, "bitcast_convert", only(v), "to ",
            name(dtype), ": the last dim doesn't hold one element");
    dims.pop_back();
  }
  return one("bitcast_convert", only(v), {}, {dtype, std::move(dims)});
}

}  // namespace torch_pjrt::hlo
