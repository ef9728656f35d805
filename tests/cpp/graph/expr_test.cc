#include "graph/expr.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "error_of.h"

namespace torch_pjrt {
namespace {

constexpr int64_t kBig = int64_t{1} << 53;

class ExprTest : public testing::Test {
 protected:
  ExprId num(int64_t v) { return exprs_.add_int(v); }
  ExprId num(int v) { return num(static_cast<int64_t>(v)); }
  ExprId num(double v) { return exprs_.add_float(v); }

  // `op` of constants.
  template <class... Operands>
  Number of(ExprOp op, Operands... operands) {
    return exprs_.evaluate(exprs_.add(op, {num(operands)...}), {});
  }
  template <class... Operands>
  std::string error(ExprOp op, Operands... operands) {
    return error_of([&] { of(op, operands...); });
  }

  static Number i(int64_t v) { return Number::of_int(v); }
  static Number f(double v) { return Number::of_float(v); }

  Exprs exprs_;
};

TEST_F(ExprTest, EveryOperatorIsFoundByItsName) {
  constexpr int kCount = static_cast<int>(ExprOp::kBitXor) + 1;
  for (int k = 0; k < kCount; ++k) {
    const auto op = static_cast<ExprOp>(k);
    EXPECT_EQ(expr_op(name(op)), op) << name(op);
  }
  EXPECT_EQ(name(ExprOp::kFloorDiv), "FloorDiv");
  EXPECT_EQ(name(ExprOp::kSqrt), "Sqrt");
  EXPECT_EQ(error_of([] { expr_op("Zeta"); }),
            "unsupported: the size expression Zeta has no rule; call torch.compile with "
            "dynamic=False to compile one program per shape");
}

TEST_F(ExprTest, Arithmetic) {
  EXPECT_EQ(of(ExprOp::kAdd, 1, 2, 3), i(6));
  EXPECT_EQ(of(ExprOp::kAdd, 1, 0.5), f(1.5));
  EXPECT_EQ(of(ExprOp::kMul, 2, -3, 4), i(-24));
  EXPECT_EQ(of(ExprOp::kMul, 7), i(7));
  EXPECT_EQ(of(ExprOp::kMul, 2, 0.5), f(1));
  EXPECT_EQ(of(ExprOp::kPow, -2, 3), i(-8));
  EXPECT_EQ(of(ExprOp::kPow, 2, -1), f(0.5));
  EXPECT_EQ(of(ExprOp::kPow, 2.0, 3), f(8));
  EXPECT_EQ(of(ExprOp::kAbs, -3), i(3));
  EXPECT_EQ(of(ExprOp::kAbs, -3.5), f(3.5));
  EXPECT_EQ(of(ExprOp::kIdentity, 5), i(5));
  EXPECT_EQ(of(ExprOp::kSqrt, 9), f(3));
  EXPECT_EQ(of(ExprOp::kExp, 2), f(std::exp(2.0)));
  EXPECT_EQ(of(ExprOp::kLog, 9), f(std::log(9.0)));
  EXPECT_EQ(of(ExprOp::kLog2, 8), f(3));
  EXPECT_NE(error(ExprOp::kAbs, std::numeric_limits<int64_t>::min()), "");
  EXPECT_NE(error(ExprOp::kAdd, std::numeric_limits<int64_t>::max(), 1), "");
  EXPECT_EQ(error(ExprOp::kPow, 0, -1), "invalid: a size expression divides by zero");
}

TEST_F(ExprTest, Division) {
  EXPECT_EQ(of(ExprOp::kFloorDiv, -7, 2), i(-4));
  EXPECT_EQ(of(ExprOp::kFloorDiv, -7.0, 2), f(-4));
  EXPECT_EQ(of(ExprOp::kCleanDiv, -8, 2), i(-4));
  EXPECT_EQ(of(ExprOp::kCeilDiv, -7, 2), i(-3));
  EXPECT_EQ(of(ExprOp::kCeilDiv, 7, 2), i(4));
  EXPECT_EQ(of(ExprOp::kMod, -7, 3), i(2));
  EXPECT_EQ(of(ExprOp::kPythonMod, 7, -3), i(-2));
  EXPECT_EQ(of(ExprOp::kPythonMod, -7.5, 3), f(1.5));
  EXPECT_EQ(of(ExprOp::kModularIndexing, 17, 3, 4), i(1));
  EXPECT_EQ(of(ExprOp::kIntTrueDiv, 7, 2), f(3.5));
  EXPECT_EQ(of(ExprOp::kFloatTrueDiv, 1.0, 4.0), f(0.25));
  EXPECT_EQ(of(ExprOp::kFloatPow, 2.0, 0.5), f(std::sqrt(2.0)));
  for (const ExprOp op : {ExprOp::kFloorDiv, ExprOp::kCleanDiv, ExprOp::kCeilDiv, ExprOp::kMod,
                          ExprOp::kPythonMod, ExprOp::kIntTrueDiv, ExprOp::kFloatTrueDiv}) {
    EXPECT_EQ(error(op, 1, 0), "invalid: a size expression divides by zero") << name(op);
  }
}

TEST_F(ExprTest, IntegerOperatorsRefuseFloats) {
  for (const ExprOp op : {ExprOp::kCleanDiv, ExprOp::kCeilDiv, ExprOp::kLShift, ExprOp::kRShift,
                          ExprOp::kBitAnd, ExprOp::kBitOr, ExprOp::kBitXor}) {
    EXPECT_EQ(error(op, 4.0, 2),
              "internal: the size expression " + std::string(name(op)) + " takes ints only");
  }
  EXPECT_NE(error(ExprOp::kModularIndexing, 4, 2, 1.0), "");
}

TEST_F(ExprTest, ShiftsAndBits) {
  EXPECT_EQ(of(ExprOp::kBitAnd, 12, 10), i(8));
  EXPECT_EQ(of(ExprOp::kBitOr, 12, -10), i(12 | -10));
  EXPECT_EQ(of(ExprOp::kBitXor, 12, 10), i(6));
  EXPECT_EQ(of(ExprOp::kLShift, 3, 4), i(48));
  EXPECT_EQ(of(ExprOp::kRShift, -5, 1), i(-3));
}

TEST_F(ExprTest, MinAndMaxKeepTheKindOfTheirResult) {
  EXPECT_EQ(of(ExprOp::kMin, 3, 1, 2), i(1));
  EXPECT_EQ(of(ExprOp::kMax, 3, 1, 5), i(5));
  EXPECT_EQ(of(ExprOp::kMax, -1, -2), i(-1));
  EXPECT_EQ(of(ExprOp::kMin, 3, 1.5), f(1.5));
  EXPECT_EQ(of(ExprOp::kMax, 3, 1.5), i(3));
  EXPECT_EQ(of(ExprOp::kMin, 2, 2.0), i(2));  // the first of equals, as in Python
  EXPECT_EQ(of(ExprOp::kMax, 4), i(4));
}

TEST_F(ExprTest, RelationsAreExact) {
  struct Case {
    ExprOp op;
    std::array<int, 3> less_equal_greater;
  };
  for (const Case& c :
       {Case{ExprOp::kEq, {0, 1, 0}}, Case{ExprOp::kNe, {1, 0, 1}}, Case{ExprOp::kLt, {1, 0, 0}},
        Case{ExprOp::kLe, {1, 1, 0}}, Case{ExprOp::kGt, {0, 0, 1}}, Case{ExprOp::kGe, {0, 1, 1}}}) {
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(of(c.op, k - 1, 0), i(c.less_equal_greater[k])) << name(c.op) << k;
      EXPECT_EQ(of(c.op, k - 1.0, 0), i(c.less_equal_greater[k])) << name(c.op) << k;
    }
  }
  // A double of its own could not tell these apart.
  EXPECT_EQ(of(ExprOp::kEq, kBig + 1, static_cast<double>(kBig)), i(0));
  EXPECT_EQ(of(ExprOp::kGt, kBig + 1, static_cast<double>(kBig)), i(1));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(of(ExprOp::kEq, nan, nan), i(0));
  EXPECT_EQ(of(ExprOp::kNe, nan, 1), i(1));
  EXPECT_EQ(of(ExprOp::kLe, nan, 1), i(0));
  EXPECT_EQ(of(ExprOp::kGe, nan, 1), i(0));
}

TEST_F(ExprTest, Logic) {
  EXPECT_EQ(of(ExprOp::kAnd, 1, 2, 3), i(1));
  EXPECT_EQ(of(ExprOp::kAnd, 1, 0), i(0));
  EXPECT_EQ(of(ExprOp::kOr, 0, 0, 4), i(1));
  EXPECT_EQ(of(ExprOp::kOr, 0, 0.0), i(0));
  EXPECT_EQ(of(ExprOp::kNot, 0), i(1));
  EXPECT_EQ(of(ExprOp::kNot, -3), i(0));
}

TEST_F(ExprTest, WhereEvaluatesOneBranch) {
  EXPECT_EQ(of(ExprOp::kWhere, 1, 5, 6), i(5));
  EXPECT_EQ(of(ExprOp::kWhere, 0, 5, 6.5), f(6.5));
  const ExprId fails = exprs_.add(ExprOp::kFloorDiv, {num(1), num(0)});
  const ExprId where = exprs_.add(ExprOp::kWhere, {num(0), fails, num(7)});
  EXPECT_EQ(exprs_.evaluate(where, {}), i(7));
}

TEST_F(ExprTest, ConversionsOfFloats) {
  EXPECT_EQ(of(ExprOp::kToFloat, 3), f(3));
  EXPECT_EQ(of(ExprOp::kFloorToInt, -1.5), i(-2));
  EXPECT_EQ(of(ExprOp::kCeilToInt, -1.5), i(-1));
  EXPECT_EQ(of(ExprOp::kTruncToInt, -1.5), i(-1));
  EXPECT_EQ(of(ExprOp::kRoundToInt, 0.5), i(0));
  EXPECT_EQ(of(ExprOp::kRoundToInt, 1.5), i(2));
  EXPECT_EQ(of(ExprOp::kRoundToInt, -2.5), i(-2));
  for (const ExprOp op :
       {ExprOp::kFloorToInt, ExprOp::kCeilToInt, ExprOp::kTruncToInt, ExprOp::kRoundToInt}) {
    EXPECT_EQ(of(op, kBig + 1), i(kBig + 1)) << "an int stays as it is";
    EXPECT_NE(error(op, 1e19), "") << name(op);
    EXPECT_NE(error(op, std::numeric_limits<double>::quiet_NaN()), "") << name(op);
  }
}

TEST_F(ExprTest, SymbolsAreReadFromTheValues) {
  const ExprId s = exprs_.add_symbol("s0");
  const ExprId t = exprs_.add_symbol("s1");
  const ExprId half = exprs_.add(ExprOp::kFloorDiv, {s, num(2)});
  const Size size = Size::symbolic(exprs_.add(ExprOp::kMul, {half, t}), 99);
  EXPECT_EQ(exprs_.evaluate(size, std::array<int64_t, 2>{7, 10}), 30);
  EXPECT_EQ(exprs_.evaluate(size, std::array<int64_t, 2>{1, 10}), 0);
  EXPECT_EQ(exprs_.evaluate(size, std::array<int64_t, 2>{3, 1}), 1);
  EXPECT_EQ(exprs_.evaluate(Size(12), {}), 12);
  EXPECT_EQ(exprs_.symbols(), (std::vector<std::string>{"s0", "s1"}));
  EXPECT_EQ(exprs_.as_symbol(t), 1);
  EXPECT_EQ(exprs_.as_symbol(half), -1);
  std::vector<bool> used(2);
  exprs_.mark_symbols(half, used);
  EXPECT_EQ(used, (std::vector<bool>{true, false}));
}

TEST_F(ExprTest, ASizeIsAnInt) {
  const ExprId s = exprs_.add_symbol("s0");
  const Size size = Size::symbolic(exprs_.add(ExprOp::kToFloat, {s}), 3);
  EXPECT_EQ(error_of([&] { exprs_.evaluate(size, std::array<int64_t, 1>{3}); }),
            "internal: the size ToFloat(s0) is not an integer");
}

TEST_F(ExprTest, EqualExpressionsShareAnId) {
  const ExprId s = exprs_.add_symbol("s0");
  EXPECT_EQ(exprs_.add_symbol("s0"), s);
  EXPECT_EQ(exprs_.add(ExprOp::kAdd, {s, num(1)}), exprs_.add(ExprOp::kAdd, {s, num(1)}));
  EXPECT_NE(exprs_.add(ExprOp::kAdd, {s, num(1)}), exprs_.add(ExprOp::kAdd, {num(1), s}));
  EXPECT_NE(num(1), num(1.0));
  EXPECT_NE(num(0.0), num(-0.0));
  EXPECT_NE(num(0), s) << "symbol 0 is not the number 0";
}

TEST_F(ExprTest, AWrongNumberOfOperandsIsOurFault) {
  EXPECT_EQ(error_of([&] { exprs_.add(ExprOp::kFloorDiv, {num(1)}); }),
            "internal: the expression FloorDiv doesn't take 1 operands");
  EXPECT_NE(error_of([&] { exprs_.add(ExprOp::kAdd, {}); }), "");
  EXPECT_NE(error_of([&] { exprs_.add(ExprOp::kNot, {num(1), num(2)}); }), "");
  EXPECT_NE(error_of([&] { exprs_.add(ExprOp::kInt, {}); }), "") << "leaves have their own";
  EXPECT_EQ(error_of([&] { exprs_.add(ExprOp::kNot, {77}); }),
            "internal: the expression Not has no operand 77");
}

TEST_F(ExprTest, Print) {
  const ExprId s = exprs_.add_symbol("s0");
  const ExprId half = exprs_.add(ExprOp::kFloorDiv, {exprs_.add_symbol("s1"), num(2)});
  EXPECT_EQ(exprs_.print(exprs_.add(ExprOp::kMul, {s, half})), "(s0*FloorDiv(s1, 2))");
  EXPECT_EQ(exprs_.print(exprs_.add(ExprOp::kAdd, {s, num(-1), num(0.5)})), "(s0 + -1 + 0.5)");
  EXPECT_EQ(exprs_.print(Size(3)), "3");
  EXPECT_EQ(exprs_.print(Size::symbolic(s, 3)), "s0");
}

}  // namespace
}  // namespace torch_pjrt
