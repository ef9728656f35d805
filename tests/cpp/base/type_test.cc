#include "base/type.h"

#include <gtest/gtest.h>

namespace torch_pjrt {
namespace {

TEST(TypeTest, CountsElementsAndBytes) {
  const Type matrix{DType::kF32, {2, 3}};
  EXPECT_EQ(matrix.num_elements(), 6);
  EXPECT_EQ(matrix.num_bytes(), 24);
  EXPECT_EQ((Type{DType::kI64, {}}).num_elements(), 1);
  EXPECT_EQ((Type{DType::kI64, {4, 0}}).num_bytes(), 0);
}

TEST(TypeTest, Prints) {
  EXPECT_EQ(to_string(Type{DType::kF32, {2, 3}}), "f32[2,3]");
  EXPECT_EQ(to_string(Type{DType::kBool, {}}), "bool[]");
}

TEST(TypeTest, ContiguousStrides) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Dims{4, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Dims{});
}

TEST(TypeTest, DenseStridesFollowTheOrder) {
  // Channels last: N, H, W, C from major to minor.
  EXPECT_EQ(dense_strides({2, 3, 4, 5}, {0, 2, 3, 1}), (Dims{60, 1, 15, 3}));
}

}  // namespace
}  // namespace torch_pjrt
