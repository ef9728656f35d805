// The expected values are what Python 3 prints.
#include "graph/python_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "error_of.h"

namespace torch_pjrt::python_math {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr const char* kByZero = "invalid: a size expression divides by zero";

template <class Body>
bool overflows(const Body& body) {
  return error_of(body).find("doesn't fit in 64 bits; use smaller sizes") != std::string::npos;
}

TEST(PythonMathTest, SumsAndProductsOverflow) {
  EXPECT_EQ(add(kMost, -1), kMost - 1);
  EXPECT_EQ(add(kLeast, kMost), -1);
  EXPECT_TRUE(overflows([] { add(kMost, 1); }));
  EXPECT_TRUE(overflows([] { add(kLeast, -1); }));
  EXPECT_EQ(mul(kLeast, 1), kLeast);
  EXPECT_EQ(mul(-4, int64_t{1} << 61), kLeast);
  EXPECT_TRUE(overflows([] { mul(kLeast, -1); }));
  EXPECT_TRUE(overflows([] { mul(int64_t{1} << 32, int64_t{1} << 31); }));
}

TEST(PythonMathTest, DivisionRoundsAndTheRemainderHasTheDivisorsSign) {
  struct Case {
    int64_t a, b, floor, ceil, mod;
  };
  for (const Case& c :
       {Case{7, 2, 3, 4, 1}, Case{-7, 2, -4, -3, 1}, Case{7, -2, -4, -3, -1},
        Case{-7, -2, 3, 4, -1}, Case{6, 3, 2, 2, 0}, Case{-6, 3, -2, -2, 0}, Case{6, -3, -2, -2, 0},
        Case{0, 5, 0, 0, 0}, Case{1, 5, 0, 1, 1}, Case{-1, 5, -1, 0, 4}, Case{7, 1, 7, 7, 0},
        Case{7, -1, -7, -7, 0}, Case{kMost, -1, -kMost, -kMost, 0},
        Case{kLeast, 1, kLeast, kLeast, 0}, Case{kLeast, 2, kLeast / 2, kLeast / 2, 0},
        Case{kLeast, kMost, -2, -1, kMost - 1}, Case{kMost, kLeast, -1, 0, -1}}) {
    EXPECT_EQ(floor_div(c.a, c.b), c.floor) << c.a << " // " << c.b;
    EXPECT_EQ(ceil_div(c.a, c.b), c.ceil) << c.a << " / " << c.b;
    EXPECT_EQ(mod(c.a, c.b), c.mod) << c.a << " % " << c.b;
  }
  EXPECT_EQ(mod(kLeast, -1), 0);
  EXPECT_TRUE(overflows([] { floor_div(kLeast, -1); }));
  EXPECT_TRUE(overflows([] { ceil_div(kLeast, -1); }));
  EXPECT_EQ(error_of([] { floor_div(1L, 0L); }), kByZero);
  EXPECT_EQ(error_of([] { ceil_div(0L, 0L); }), kByZero);
  EXPECT_EQ(error_of([] { mod(1L, 0L); }), kByZero);
}

TEST(PythonMathTest, PowersOfInts) {
  EXPECT_EQ(power(0L, 0L), 1);
  EXPECT_EQ(power(0L, 5L), 0);
  EXPECT_EQ(power(1L, kMost), 1);
  EXPECT_EQ(power(-1L, kMost), -1);
  EXPECT_EQ(power(-1L, kMost - 1), 1);
  EXPECT_EQ(power(-3L, 3L), -27);
  EXPECT_EQ(power(3L, 39L), 4052555153018976267);
  EXPECT_EQ(power(-2L, 63L), kLeast);
  EXPECT_TRUE(overflows([] { power(2L, 63L); }));
  EXPECT_TRUE(overflows([] { power(3L, 40L); }));
  EXPECT_TRUE(overflows([] { power(2L, kMost); }));
}

TEST(PythonMathTest, Shifts) {
  EXPECT_EQ(shift_left(5, 0), 5);
  EXPECT_EQ(shift_left(-5, 2), -20);
  EXPECT_EQ(shift_left(1, 62), int64_t{1} << 62);
  EXPECT_EQ(shift_left(-1, 63), kLeast);
  EXPECT_EQ(shift_left(0, 1000), 0);
  for (const int64_t count : {63, 64, 1000}) {
    EXPECT_TRUE(overflows([&] { shift_left(1, count); })) << count;
  }
  EXPECT_TRUE(overflows([] { shift_left(-2, 63); }));
  EXPECT_EQ(shift_right(20, 2), 5);
  EXPECT_EQ(shift_right(-1, 1), -1);
  EXPECT_EQ(shift_right(-5, 1), -3);
  EXPECT_EQ(shift_right(kMost, 64), 0);
  EXPECT_EQ(shift_right(kLeast, 1000), -1);
  EXPECT_EQ(error_of([] { shift_left(1, -1); }),
            "invalid: a size expression shifts by the negative count -1");
  EXPECT_NE(error_of([] { shift_right(1, -1); }), "");
}

TEST(PythonMathTest, FloorDivisionAndRemainderOfFloats) {
  EXPECT_EQ(floor_div(7.0, 2.0), 3);
  EXPECT_EQ(floor_div(-7.0, 2.0), -4);
  EXPECT_EQ(floor_div(7.0, -2.0), -4);
  EXPECT_EQ(floor_div(1.0, 0.1), 9);  // though 1.0 / 0.1 == 10
  EXPECT_EQ(mod(1.0, 0.1), 0.09999999999999995);
  EXPECT_EQ(mod(-7.0, 2.0), 1);
  EXPECT_EQ(mod(7.0, -2.0), -1);
  EXPECT_EQ(mod(-1e-20, 3.0), 3.0);
  EXPECT_EQ(floor_div(-1e-20, 3.0), -1);
  EXPECT_EQ(floor_div(-1.0, kInf), -1);
  EXPECT_EQ(mod(-1.0, kInf), kInf);
  EXPECT_EQ(floor_div(1.0, kInf), 0);
  EXPECT_TRUE(std::signbit(mod(4.0, -2.0)));
  EXPECT_TRUE(std::signbit(floor_div(-0.0, 2.0)));
  EXPECT_FALSE(std::signbit(floor_div(0.5, 2.0)));
  EXPECT_TRUE(std::isnan(mod(kNan, 2.0)));
  EXPECT_EQ(error_of([] { floor_div(1.0, 0.0); }), kByZero);
  EXPECT_EQ(error_of([] { mod(1.0, -0.0); }), kByZero);
  EXPECT_EQ(error_of([] { divide(1.0, 0.0); }), kByZero);
  EXPECT_EQ(divide(1.0, 4.0), 0.25);
}

TEST(PythonMathTest, PowersAndRootsOfFloats) {
  EXPECT_EQ(power(2.0, -2.0), 0.25);
  EXPECT_EQ(power(-2.0, 3.0), -8);
  EXPECT_EQ(power(0.0, 0.0), 1);
  EXPECT_EQ(power(-2.0, kInf), kInf);
  EXPECT_EQ(error_of([] { power(0.0, -1.0); }), kByZero);
  EXPECT_EQ(error_of([] { power(-8.0, 0.5); }),
            "invalid: a size expression raises -8 to the power 0.5, which is no real number");
  EXPECT_EQ(square_root(9.0), 3);
  EXPECT_EQ(error_of([] { square_root(-1.0); }),
            "invalid: a size expression takes the square root of -1");
}

TEST(PythonMathTest, LogarithmsAndExponentials) {
  EXPECT_EQ(logarithm(1.0), 0);
  EXPECT_EQ(logarithm_2(0.25), -2);
  EXPECT_EQ(exponential(0.0), 1);
  for (const double v : {0.0, -1.0}) {
    EXPECT_NE(error_of([=] { logarithm(v); }), "");
    EXPECT_NE(error_of([=] { logarithm_2(v); }), "");
  }
  EXPECT_EQ(error_of([] { exponential(710.0); }),
            "invalid: a size expression takes the exponential of 710, which is too large");
}

TEST(PythonMathTest, IntsOfFloats) {
  EXPECT_EQ(to_int(-3.0), -3);
  EXPECT_EQ(to_int(-0x1p63), kLeast);
  EXPECT_EQ(to_int(0x1p63 - 1024), kMost - 1023);
  EXPECT_TRUE(overflows([] { to_int(0x1p63); }));
  EXPECT_TRUE(overflows([] { to_int(-kInf); }));
  EXPECT_EQ(error_of([] { to_int(kNan); }), "invalid: a size expression makes an int of NaN");
}

}  // namespace
}  // namespace torch_pjrt::python_math
