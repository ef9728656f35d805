// Elementwise ops, computed by the plugin.
#include <cmath>
#include <complex>
#include <functional>
#include <numbers>

#include "program.h"

namespace torch_pjrt::hlo {
namespace {

float unary(Op op, float x) {
  Program p;
  return p.floats(p.build.elementwise(op, {p.floats({1}, {x})}))[0];
}

float binary(Op op, float x, float y) {
  Program p;
  return p.floats(p.build.elementwise(op, {p.floats({1}, {x}), p.floats({1}, {y})}))[0];
}

int64_t integer(Op op, const std::vector<int64_t>& operands) {
  Program p;
  std::vector<Value> values;
  for (const int64_t v : operands) values.push_back(p.longs({1}, {v}));
  return p.longs(p.build.elementwise(op, values))[0];
}

TEST(Elementwise, UnaryOfFloats) {
  const std::pair<Op, std::function<double(double)>> ops[] = {
      {Op::kAbs, [](double x) { return std::fabs(x); }},
      {Op::kCbrt, [](double x) { return std::cbrt(x); }},
      {Op::kCeil, [](double x) { return std::ceil(x); }},
      {Op::kCosine, [](double x) { return std::cos(x); }},
      {Op::kErf, [](double x) { return std::erf(x); }},
      {Op::kErfc, [](double x) { return std::erfc(x); }},
      {Op::kExponential, [](double x) { return std::exp(x); }},
      {Op::kExponentialMinusOne, [](double x) { return std::expm1(x); }},
      {Op::kFloor, [](double x) { return std::floor(x); }},
      {Op::kLgamma, [](double x) { return std::lgamma(x); }},
      {Op::kLog, [](double x) { return std::log(x); }},
      {Op::kLogPlusOne, [](double x) { return std::log1p(x); }},
      {Op::kLogistic, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {Op::kNegate, [](double x) { return -x; }},
      {Op::kRoundNearestAfz, [](double x) { return std::round(x); }},
      {Op::kRoundNearestEven, [](double x) { return std::nearbyint(x); }},
      {Op::kRsqrt, [](double x) { return 1 / std::sqrt(x); }},
      {Op::kSign, [](double x) { return x > 0 ? 1 : -1; }},
      {Op::kSine, [](double x) { return std::sin(x); }},
      {Op::kSqrt, [](double x) { return std::sqrt(x); }},
      {Op::kTan, [](double x) { return std::tan(x); }},
      {Op::kTanh, [](double x) { return std::tanh(x); }},
  };
  for (const auto& [op, expected] : ops) {
    for (const float x : {0.3f, 2.5f}) {
      EXPECT_NEAR(unary(op, x), expected(x), 1e-5) << "op " << static_cast<int>(op) << " of " << x;
    }
  }
}

TEST(Elementwise, TheInverseOfErf) {
  for (const float x : {0.3f, 1.5f}) {
    EXPECT_NEAR(unary(Op::kErfInverse, std::erf(x)), x, 1e-5);
  }
}

TEST(Elementwise, DerivativesOfTheGammaFunction) {
  EXPECT_NEAR(unary(Op::kDigamma, 1), -std::numbers::egamma, 1e-5);
  EXPECT_NEAR(binary(Op::kPolygamma, 1, 1), std::numbers::pi * std::numbers::pi / 6, 1e-5);
  EXPECT_NEAR(binary(Op::kZeta, 2, 1), std::numbers::pi * std::numbers::pi / 6, 1e-5);
}

TEST(Elementwise, BinaryOfFloats) {
  EXPECT_EQ(binary(Op::kAdd, 7, 2), 9);
  EXPECT_NEAR(binary(Op::kAtan2, 7, 2), std::atan2(7.0, 2.0), 1e-6);
  EXPECT_EQ(binary(Op::kDivide, 7, 2), 3.5);
  EXPECT_EQ(binary(Op::kMaximum, 7, 2), 7);
  EXPECT_EQ(binary(Op::kMinimum, 7, 2), 2);
  EXPECT_EQ(binary(Op::kMultiply, 7, 2), 14);
  EXPECT_EQ(binary(Op::kNextAfter, 1, 2), std::nextafter(1.0f, 2.0f));
  EXPECT_NEAR(binary(Op::kPower, 7, 2), 49, 1e-4);
  EXPECT_EQ(binary(Op::kRemainder, -7, 2), -1);
  EXPECT_EQ(binary(Op::kSubtract, 7, 2), 5);
}

TEST(Elementwise, OfIntegers) {
  EXPECT_EQ(integer(Op::kAbs, {-5}), 5);
  EXPECT_EQ(integer(Op::kAdd, {7, 2}), 9);
  EXPECT_EQ(integer(Op::kAnd, {7, 2}), 2);
  EXPECT_EQ(integer(Op::kClamp, {1, 7, 3}), 3);
  EXPECT_EQ(integer(Op::kCountLeadingZeros, {1}), 63);
  EXPECT_EQ(integer(Op::kDivide, {-7, 2}), -3);
  EXPECT_EQ(integer(Op::kMaximum, {7, 2}), 7);
  EXPECT_EQ(integer(Op::kMinimum, {7, 2}), 2);
  EXPECT_EQ(integer(Op::kMultiply, {7, 2}), 14);
  EXPECT_EQ(integer(Op::kNegate, {7}), -7);
  EXPECT_EQ(integer(Op::kNot, {7}), -8);
  EXPECT_EQ(integer(Op::kOr, {5, 2}), 7);
  EXPECT_EQ(integer(Op::kPopcnt, {7}), 3);
  EXPECT_EQ(integer(Op::kPower, {7, 2}), 49);
  EXPECT_EQ(integer(Op::kRemainder, {-7, 2}), -1);
  EXPECT_EQ(integer(Op::kShiftLeft, {7, 2}), 28);
  EXPECT_EQ(integer(Op::kShiftRightArithmetic, {-8, 1}), -4);
  EXPECT_EQ(integer(Op::kShiftRightLogical, {-8, 1}), 0x7ffffffffffffffc);
  EXPECT_EQ(integer(Op::kSign, {-9}), -1);
  EXPECT_EQ(integer(Op::kSubtract, {7, 2}), 5);
  EXPECT_EQ(integer(Op::kXor, {7, 2}), 5);
}

// Each op compiles and runs for each dtype that the builder lets through.
TEST(Elementwise, EveryDTypeThatTheBuilderTakes) {
  for (int o = 0; o <= static_cast<int>(Op::kZeta); ++o) {
    const auto op = static_cast<Op>(o);
    for (int k = 0; k < kNumDTypes; ++k) {
      const auto dtype = static_cast<DType>(k);
      bool taken = false;
      for (size_t arity = 1; arity <= 3 && !taken; ++arity) {
        Program p;
        std::vector<Value> operands;
        for (size_t i = 0; i < arity; ++i) {
          const DType own = op == Op::kSelect && i == 0 ? DType::kBool : dtype;
          operands.push_back(p.input<char>(own, {1}, Bytes(byte_size(own))));
        }
        Value result;
        try {
          result = p.build.elementwise(op, operands);
        } catch (const Error& e) {
          EXPECT_TRUE(e.code() == Code::kInternal ||
                      (is_complex(dtype) && e.code() == Code::kUnsupported));
          continue;
        }
        taken = true;
        EXPECT_NO_THROW(p.run({result})) << "op " << o << " of " << name(dtype);
      }
    }
  }
}

TEST(Elementwise, Booleans) {
  Program p;
  const Value a = p.input<char>(DType::kBool, {4}, {0, 0, 1, 1});
  const Value b = p.input<char>(DType::kBool, {4}, {0, 1, 0, 1});
  const auto of = [&](Op op) { return p.values<char>(p.build.elementwise(op, {a, b})); };
  EXPECT_EQ(of(Op::kAnd), (Bytes{0, 0, 0, 1}));
  EXPECT_EQ(of(Op::kMultiply), (Bytes{0, 0, 0, 1}));
  EXPECT_EQ(of(Op::kMinimum), (Bytes{0, 0, 0, 1}));
  EXPECT_EQ(of(Op::kOr), (Bytes{0, 1, 1, 1}));
  EXPECT_EQ(of(Op::kAdd), (Bytes{0, 1, 1, 1}));
  EXPECT_EQ(of(Op::kMaximum), (Bytes{0, 1, 1, 1}));
  EXPECT_EQ(of(Op::kXor), (Bytes{0, 1, 1, 0}));
  EXPECT_EQ(p.values<char>(p.build.elementwise(Op::kNot, {a})), (Bytes{1, 1, 0, 0}));
}

TEST(Elementwise, SelectAndClampTakeScalars) {
  Program p;
  const Value a = p.floats({3}, {1, 5, 9});
  const Value b = p.floats({3}, {-1, -5, -9});
  const Value pick = p.input<char>(DType::kBool, {3}, {1, 0, 1});
  const Value no = p.input<char>(DType::kBool, {}, {0});
  EXPECT_EQ(p.floats(p.build.elementwise(Op::kSelect, {pick, a, b})),
            (std::vector<float>{1, -5, 9}));
  EXPECT_EQ(p.floats(p.build.elementwise(Op::kSelect, {no, a, b})),
            (std::vector<float>{-1, -5, -9}));
  const Value low = p.build.constant(2, {DType::kF32, {}});
  const Value high = p.build.constant(6.0, {DType::kF32, {}});
  EXPECT_EQ(p.floats(p.build.elementwise(Op::kClamp, {low, a, high})),
            (std::vector<float>{2, 5, 6}));
  EXPECT_EQ(p.floats(p.build.elementwise(Op::kClamp, {low, a, a})), (std::vector<float>{1, 5, 9}));
}

TEST(Elementwise, IsFinite) {
  Program p;
  EXPECT_EQ(p.values<char>(p.build.elementwise(Op::kIsFinite, {p.floats({3}, {1, INFINITY, NAN})})),
            (Bytes{1, 0, 0}));
}

TEST(Elementwise, Compare) {
  const std::pair<Direction, Bytes> expected[] = {
      {Direction::kEq, {0, 1, 0, 0}}, {Direction::kNe, {1, 0, 1, 1}},
      {Direction::kLt, {1, 0, 0, 0}}, {Direction::kLe, {1, 1, 0, 0}},
      {Direction::kGt, {0, 0, 1, 0}}, {Direction::kGe, {0, 1, 1, 0}}};
  for (const auto& [direction, bytes] : expected) {
    Program p;
    const Value a = p.floats({4}, {1, 2, 3, NAN});
    const Value b = p.floats({4}, {2, 2, 2, NAN});
    EXPECT_EQ(p.values<char>(p.build.compare(direction, a, b)), bytes);
  }
  Program p;
  const Value small = p.input<uint8_t>(DType::kU8, {1}, {1});
  const Value large = p.input<uint8_t>(DType::kU8, {1}, {255});
  const Value minus = p.input<int8_t>(DType::kI8, {1}, {-1});
  const Value plus = p.input<int8_t>(DType::kI8, {1}, {1});
  const Value no = p.input<char>(DType::kBool, {1}, {0});
  const Value yes = p.input<char>(DType::kBool, {1}, {1});
  EXPECT_EQ(p.values<char>(p.build.compare(Direction::kLt, small, large)), Bytes{1});
  EXPECT_EQ(p.values<char>(p.build.compare(Direction::kLt, minus, plus)), Bytes{1});
  EXPECT_EQ(p.values<char>(p.build.compare(Direction::kLt, no, yes)), Bytes{1});
}

TEST(Elementwise, EveryConversion) {
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      if (is_complex(static_cast<DType>(from)) && !is_complex(static_cast<DType>(to))) continue;
      Program p;
      const Value one = p.build.constant(1, {static_cast<DType>(from), {2}});
      const Value result = p.build.convert(one, static_cast<DType>(to));
      const Value expected = p.build.constant(1, {static_cast<DType>(to), {2}});
      const auto data = p.run({result, expected});
      EXPECT_EQ(data[0], data[1]) << from << " to " << to;
    }
  }
}

TEST(Elementwise, ComplexParts) {
  using C = std::complex<float>;
  Program p;
  const Value z = p.input<C>(DType::kC64, {2}, {{3, -4}, {-0.0F, INFINITY}});
  const Value real = p.build.elementwise(Op::kReal, {z});
  const Value imag = p.build.elementwise(Op::kImag, {z});
  EXPECT_EQ(real.type.dtype, DType::kF32);
  EXPECT_EQ(p.floats(real), (std::vector<float>{3, -0.0F}));
  EXPECT_EQ(p.floats(imag), (std::vector<float>{-4, INFINITY}));
  EXPECT_EQ(p.floats(p.build.elementwise(Op::kAbs, {z})), (std::vector<float>{5, INFINITY}));
  EXPECT_EQ(p.values<C>(p.build.elementwise(Op::kComplex, {imag, real})),
            (std::vector<C>{{-4, 3}, {INFINITY, -0.0F}}));
}

TEST(Elementwise, ComplexNumbersHaveNoOrderAndKeepTheirImaginaryPart) {
  using C = std::complex<float>;
  Program p;
  const Value a = p.input<C>(DType::kC64, {2}, {{1, 2}, {1, 2}});
  const Value b = p.input<C>(DType::kC64, {2}, {{1, 2}, {1, 3}});
  EXPECT_EQ(p.values<char>(p.build.compare(Direction::kEq, a, b)), (Bytes{1, 0}));
  EXPECT_EQ(p.values<char>(p.build.compare(Direction::kNe, a, b)), (Bytes{0, 1}));
  try {
    p.build.compare(Direction::kLt, a, b);
    FAIL() << "an order of complex numbers";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUnsupported);
    EXPECT_NE(std::string(e.what()).find("complex"), std::string::npos);
  }
  EXPECT_THROW(p.build.convert(a, DType::kF32), Error);
}

TEST(Elementwise, BitcastConvert) {
  Program p;
  const Value one = p.floats({1}, {1});
  EXPECT_EQ(p.values<int32_t>(p.build.bitcast_convert(one, DType::kI32)),
            std::vector<int32_t>{0x3f800000});
  const Value byte = p.input<int8_t>(DType::kI8, {1}, {-1});
  EXPECT_EQ(p.values<uint8_t>(p.build.bitcast_convert(byte, DType::kU8)),
            std::vector<uint8_t>{255});
}

}  // namespace
}  // namespace torch_pjrt::hlo
