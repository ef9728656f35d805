// Constants, as the plugin reads them.
#include <bit>
#include <cmath>
#include <complex>
#include <limits>

#include "program.h"

namespace torch_pjrt::hlo {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T, class Number>
T constant(Number value, DType dtype) {
  Program p;
  return p.values<T>(p.build.constant(value, Type{dtype, {}}))[0];
}

TEST(Constant, DoublesAreExact) {
  for (const double value : {0.0, -0.0, 1.0, -1.5, 0.1, 1e20, 1e-7, 1e300, -1e-300, 5e-324,
                             std::numeric_limits<double>::max(), 100000.0, 3.141592653589793,
                             kInfinity, -kInfinity, kNaN}) {
    EXPECT_EQ(std::bit_cast<int64_t>(constant<double>(value, DType::kF64)),
              std::bit_cast<int64_t>(value))
        << value;
  }
}

TEST(Constant, FloatsAreRoundedOnce) {
  for (const double value :
       {0.0, -0.0, 0.1, -1e20, 16777217.0, 1e-45, 3.4028234663852886e38, 1e39,
        7.006492321624085e-46, 1.00000005960464477539, kInfinity, -kInfinity, kNaN}) {
    EXPECT_EQ(std::bit_cast<int32_t>(constant<float>(value, DType::kF32)),
              std::bit_cast<int32_t>(static_cast<float>(value)))
        << value;
  }
}

TEST(Constant, HalvesAreRoundedOnce) {
  const std::pair<double, uint16_t> halves[] = {
      {0.0, 0},          {-0.0, 0x8000},      {1.0, 0x3c00},        {0.1, 0x2e66},
      {65504.0, 0x7bff}, {65519.0, 0x7bff},   {65520.0, 0x7c00},    {1e-7, 0x0002},
      {2e-8, 0},         {2049.0, 0x6800},    {2051.0, 0x6802},     {2049.0000001, 0x6801},
      {6e-5, 0x03ef},    {kInfinity, 0x7c00}, {-kInfinity, 0xfc00}, {kNaN, 0x7e00}};
  for (const auto& [value, bits] : halves) {
    EXPECT_EQ(constant<uint16_t>(value, DType::kF16), bits) << value;
  }
  const std::pair<double, uint16_t> brains[] = {
      {0.0, 0},         {-0.0, 0x8000},  {1.0, 0x3f80},         {0.1, 0x3dcd},
      {257.0, 0x4380},  {259.0, 0x4382}, {257.0000001, 0x4381}, {3.3895e38, 0x7f7f},
      {3.4e38, 0x7f80}, {1e-40, 0x0001}, {kInfinity, 0x7f80},   {-kInfinity, 0xff80},
      {kNaN, 0x7fc0}};
  for (const auto& [value, bits] : brains) {
    EXPECT_EQ(constant<uint16_t>(value, DType::kBF16), bits) << value;
  }
}

TEST(Constant, IntegersAreExact) {
  for (const int64_t value : {std::numeric_limits<int64_t>::min(), int64_t{-1}, int64_t{0},
                              (int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(constant<int64_t>(value, DType::kI64), value);
  }
  EXPECT_EQ(constant<int64_t>(-0x1p63, DType::kI64), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(constant<int32_t>(int64_t{-2147483648}, DType::kI32), -2147483647 - 1);
  EXPECT_EQ(constant<int16_t>(-32768, DType::kI16), -32768);
  EXPECT_EQ(constant<int8_t>(-128, DType::kI8), -128);
  EXPECT_EQ(constant<uint8_t>(255, DType::kU8), 255);
  EXPECT_EQ(constant<uint8_t>(128.0, DType::kU8), 128);
  EXPECT_EQ(constant<char>(1, DType::kBool), 1);
  EXPECT_EQ(constant<char>(0.0, DType::kBool), 0);
  EXPECT_EQ(constant<float>((int64_t{1} << 60) + (int64_t{1} << 36) + 1, DType::kF32),
            static_cast<float>((int64_t{1} << 60) + (int64_t{1} << 36) + 1));
}

TEST(Constant, ComplexPartsAreRoundedOnce) {
  for (const double part : {0.0, -0.0, 0.1, 16777217.0, 1e39, 1e-45, kInfinity, -kInfinity, kNaN}) {
    const auto single = constant<std::complex<float>>(std::complex<double>{1, part}, DType::kC64);
    EXPECT_EQ(single.real(), 1);
    EXPECT_EQ(std::bit_cast<int32_t>(single.imag()),
              std::bit_cast<int32_t>(static_cast<float>(part)));
    const auto wide = constant<std::complex<double>>(std::complex<double>{part, -2}, DType::kC128);
    EXPECT_EQ(std::bit_cast<int64_t>(wide.real()), std::bit_cast<int64_t>(part));
    EXPECT_EQ(wide.imag(), -2);
  }
  const int64_t big = (int64_t{1} << 53) + 1;
  EXPECT_EQ(constant<std::complex<double>>(big, DType::kC128),
            std::complex<double>(static_cast<double>(big)));
}

TEST(Constant, SplatsAndEmptyOnesOfEveryDType) {
  for (int k = 0; k < kNumDTypes; ++k) {
    const auto dtype = static_cast<DType>(k);
    Program p;
    const auto data =
        p.run({p.build.constant(1, {dtype, {0, 3}}), p.build.constant(1, {dtype, {3}}),
               p.build.constant(1.0, {dtype, {}})});
    EXPECT_EQ(data[0].size(), 0u);
    Bytes three;
    for (int i = 0; i < 3; ++i) three.insert(three.end(), data[2].begin(), data[2].end());
    EXPECT_EQ(data[1], three) << name(dtype);
  }
  Program p;
  EXPECT_EQ(p.run({p.build.constant(kNaN, {DType::kF32, {2, 0}}),
                   p.build.constant(-kInfinity, {DType::kF64, {0}})})
                .size(),
            2u);
}

TEST(Constant, Lists) {
  Program p;
  const std::vector<int64_t> values = {3, -4, std::numeric_limits<int64_t>::min()};
  EXPECT_EQ(p.longs(p.build.constant_list(values, DType::kI64)), values);
  const std::vector<int64_t> one = {7};
  EXPECT_EQ(p.floats(p.build.constant_list(one, DType::kF32)), std::vector<float>{7});
  EXPECT_EQ(p.longs(p.build.constant_list({}, DType::kI64)), std::vector<int64_t>{});
}

TEST(Constant, Iota) {
  Program p;
  EXPECT_EQ(p.longs(p.build.iota(1, {DType::kI64, {2, 3}})),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(p.floats(p.build.iota(0, {DType::kF32, {0}})), std::vector<float>{});
}

}  // namespace
}  // namespace torch_pjrt::hlo
