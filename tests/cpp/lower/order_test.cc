#include "lower/order.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace torch_pjrt::lower {
namespace {

TEST(OrderTest, RowMajorAndInverse) {
  EXPECT_EQ(row_major(0), Order());
  EXPECT_EQ(row_major(3), (Order{0, 1, 2}));
  EXPECT_TRUE(is_row_major({}));
  EXPECT_TRUE(is_row_major({0, 1}));
  EXPECT_FALSE(is_row_major({1, 0}));
  EXPECT_EQ(permute({5, 6, 7}, {2, 0, 1}), (Dims{7, 5, 6}));
  EXPECT_EQ(inverse({2, 0, 1}), (Order{1, 2, 0}));
  EXPECT_EQ(permute(permute({5, 6, 7}, {2, 0, 1}), inverse({2, 0, 1})), (Dims{5, 6, 7}));
}

TEST(OrderTest, DenseMemory) {
  EXPECT_EQ(dense_order({}, {}), Order());
  EXPECT_EQ(dense_order({2, 3}, {3, 1}), (Order{0, 1}));
  EXPECT_EQ(dense_order({2, 3}, {1, 2}), (Order{1, 0}));
  EXPECT_EQ(dense_order({2, 3, 4, 5}, {60, 1, 15, 3}), (Order{0, 2, 3, 1})) << "channels-last";
}

TEST(OrderTest, EveryOrderIsFoundFromItsStrides) {
  const Dims dims = {2, 3, 4, 5};
  Order order = row_major(4);
  do {
    EXPECT_EQ(dense_order(dims, dense_strides(dims, order)), order);
  } while (std::ranges::next_permutation(order).found);
}

TEST(OrderTest, DimsOfOneKeepTheRestInOrder) {
  EXPECT_EQ(dense_order({1, 1}, {9, 7}), (Order{0, 1}));
  EXPECT_EQ(dense_order({2, 1, 3}, {3, 100, 1}), (Order{0, 1, 2}));
  EXPECT_EQ(dense_order({2, 1, 3, 4}, {12, 1, 4, 1}), (Order{0, 1, 2, 3}))
      << "channels-last of one channel is contiguous";
  // The same whatever stride the dim of size 1 has.
  for (const int64_t stride : {0, 1, 6, 77}) {
    EXPECT_EQ(dense_order({2, 1, 3}, {1, stride, 2}), (Order{1, 2, 0})) << stride;
  }
}

TEST(OrderTest, EmptyTensorsAreRowMajor) {
  EXPECT_EQ(dense_order({2, 0, 3}, {1, 77, 5}), (Order{0, 1, 2}));
}

TEST(OrderTest, GapsAndOverlapAreNotDense) {
  EXPECT_EQ(dense_order({3}, {2}), std::nullopt);
  EXPECT_EQ(dense_order({2, 3}, {4, 1}), std::nullopt);
  EXPECT_EQ(dense_order({2, 3}, {0, 1}), std::nullopt) << "expanded";
  EXPECT_EQ(dense_order({2, 2}, {1, 1}), std::nullopt) << "overlapping windows";
  EXPECT_EQ(dense_order({2, 2}, {0, 0}), std::nullopt);
}

}  // namespace
}  // namespace torch_pjrt::lower
