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

TEST(OrderTest, TheSameMemoryReadWithOtherDims) {
  EXPECT_EQ(reshaped_order({2, 3}, {0, 1}, {6}), (Order{0}));
  EXPECT_EQ(reshaped_order({2, 3}, {1, 0}, {6}), std::nullopt);
  const Order channels_last = {0, 2, 3, 1};
  EXPECT_EQ(reshaped_order({2, 3, 4, 5}, channels_last, {2, 3, 20}), (Order{0, 2, 1}));
  EXPECT_EQ(reshaped_order({2, 3, 4, 5}, channels_last, {2, 3, 2, 10}), channels_last);
  EXPECT_EQ(reshaped_order({2, 6, 4, 5}, channels_last, {2, 2, 3, 20}), (Order{0, 3, 1, 2}));
  EXPECT_EQ(reshaped_order({2, 3, 4, 5}, channels_last, {2, 12, 5}), std::nullopt);
  EXPECT_EQ(reshaped_order({2, 3, 4, 5}, channels_last, {6, 4, 5}), std::nullopt);
  EXPECT_EQ(reshaped_order({2, 3, 4, 5}, channels_last, {2, 5, 12}), std::nullopt);
  EXPECT_EQ(reshaped_order({2, 3}, {1, 0}, {2, 1, 3}), (Order{1, 2, 0}));
  EXPECT_EQ(reshaped_order({2, 1, 3}, {1, 2, 0}, {2, 3}), (Order{1, 0}));
  EXPECT_EQ(reshaped_order({1, 1}, {1, 0}, {}), Order());
  EXPECT_EQ(reshaped_order({2, 0, 3}, {2, 1, 0}, {3, 0}), (Order{0, 1}));
}

// Every way to merge and split dims, in every order, against reading the elements.
TEST(OrderTest, AReshapedOrderReadsTheSameElements) {
  const std::vector<Dims> shapes = {{4, 6}, {2, 2, 6}, {4, 2, 3}, {2, 12}, {24}, {2, 2, 2, 3}};
  for (const Dims& from : shapes) {
    Order order = row_major(static_cast<int64_t>(from.size()));
    do {
      for (const Dims& to : shapes) {
        const std::optional<Order> found = reshaped_order(from, order, to);
        const auto places = [](const Dims& dims, const Dims& strides) {
          std::vector<int64_t> result(24);
          for (int64_t n = 0; n < 24; ++n) {
            int64_t rest = n;
            for (size_t d = dims.size(); d-- > 0; rest /= dims[d])
              result[n] += rest % dims[d] * strides[d];
          }
          return result;
        };
        const auto before = places(from, dense_strides(from, order));
        Order candidate = row_major(static_cast<int64_t>(to.size()));
        bool is_possible = false;
        do {
          const bool is_same = places(to, dense_strides(to, candidate)) == before;
          is_possible |= is_same;
          if (found == candidate) {
            EXPECT_TRUE(is_same);
          }
        } while (std::ranges::next_permutation(candidate).found);
        EXPECT_EQ(found.has_value(), is_possible);
      }
    } while (std::ranges::next_permutation(order).found);
  }
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
