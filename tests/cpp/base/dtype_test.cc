#include "base/dtype.h"

#include <gtest/gtest.h>

namespace torch_pjrt {
namespace {

TEST(DTypeTest, WidthsAgreeWithSizes) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::kBool) continue;
    EXPECT_EQ(bit_width(dtype), 8 * static_cast<int>(byte_size(dtype))) << name(dtype);
  }
  EXPECT_EQ(bit_width(DType::kBool), 1);
}

TEST(DTypeTest, PromotesAsPyTorchDoes) {
  EXPECT_EQ(promote(DType::kU8, DType::kI8), DType::kI16);
  EXPECT_EQ(promote(DType::kF16, DType::kBF16), DType::kF32);
  EXPECT_EQ(promote(DType::kI64, DType::kF16), DType::kF16);
  EXPECT_EQ(promote(DType::kBool, DType::kU8), DType::kU8);
  EXPECT_EQ(promote(DType::kU8, DType::kI32), DType::kI32);
  EXPECT_EQ(promote(DType::kC64, DType::kF64), DType::kC128);
  EXPECT_EQ(promote(DType::kC64, DType::kBF16), DType::kC64);
  EXPECT_EQ(promote(DType::kC64, DType::kI64), DType::kC64);
  EXPECT_EQ(promote(DType::kC128, DType::kF32), DType::kC128);
  EXPECT_EQ(promote(DType::kC128, DType::kC64), DType::kC128);
}

TEST(DTypeTest, PromotionIsSymmetricAndIdempotent) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto a = static_cast<DType>(i);
    EXPECT_EQ(promote(a, a), a);
    for (int j = 0; j < kNumDTypes; ++j) {
      const auto b = static_cast<DType>(j);
      EXPECT_EQ(promote(a, b), promote(b, a)) << name(a) << ", " << name(b);
    }
  }
}

TEST(DTypeTest, PartsOfComplexTypes) {
  EXPECT_EQ(part(DType::kC64), DType::kF32);
  EXPECT_EQ(part(DType::kC128), DType::kF64);
  EXPECT_EQ(part(DType::kF16), DType::kF16);
  EXPECT_EQ(to_complex(DType::kF32), DType::kC64);
  EXPECT_EQ(to_complex(DType::kBF16), DType::kC64);
  EXPECT_EQ(to_complex(DType::kF64), DType::kC128);
  EXPECT_EQ(to_complex(DType::kC128), DType::kC128);
}

TEST(DTypeTest, HalfTypesComputeInSinglePrecision) {
  EXPECT_EQ(opmath(DType::kF16), DType::kF32);
  EXPECT_EQ(opmath(DType::kBF16), DType::kF32);
  EXPECT_EQ(opmath(DType::kF64), DType::kF64);
  EXPECT_EQ(opmath(DType::kI32), DType::kI32);
}

}  // namespace
}  // namespace torch_pjrt
