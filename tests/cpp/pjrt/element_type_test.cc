#include "pjrt/element_type.h"

#include <gtest/gtest.h>

namespace torch_pjrt::pjrt {
namespace {

TEST(ElementTypeTest, EveryDTypeHasItsCounterpart) {
  EXPECT_EQ(to_pjrt(DType::kBool), PJRT_Buffer_Type_PRED);
  EXPECT_EQ(to_pjrt(DType::kU8), PJRT_Buffer_Type_U8);
  EXPECT_EQ(to_pjrt(DType::kI8), PJRT_Buffer_Type_S8);
  EXPECT_EQ(to_pjrt(DType::kI16), PJRT_Buffer_Type_S16);
  EXPECT_EQ(to_pjrt(DType::kI32), PJRT_Buffer_Type_S32);
  EXPECT_EQ(to_pjrt(DType::kI64), PJRT_Buffer_Type_S64);
  EXPECT_EQ(to_pjrt(DType::kF16), PJRT_Buffer_Type_F16);
  EXPECT_EQ(to_pjrt(DType::kBF16), PJRT_Buffer_Type_BF16);
  EXPECT_EQ(to_pjrt(DType::kF32), PJRT_Buffer_Type_F32);
  EXPECT_EQ(to_pjrt(DType::kF64), PJRT_Buffer_Type_F64);
  EXPECT_EQ(to_pjrt(DType::kC64), PJRT_Buffer_Type_C64);
  EXPECT_EQ(to_pjrt(DType::kC128), PJRT_Buffer_Type_C128);
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(from_pjrt(to_pjrt(dtype)), dtype);
  }
}

TEST(ElementTypeTest, OtherTypesHaveNone) {
  EXPECT_EQ(from_pjrt(PJRT_Buffer_Type_U32), std::nullopt);
  EXPECT_EQ(from_pjrt(PJRT_Buffer_Type_INVALID), std::nullopt);
}

}  // namespace
}  // namespace torch_pjrt::pjrt
