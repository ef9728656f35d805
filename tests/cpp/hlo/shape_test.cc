// Ops that move elements, run by the plugin.
#include "program.h"

namespace torch_pjrt::hlo {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<int64_t>;

struct Shape : testing::Test {
  Program p;
  Value a = p.floats({2, 3}, {0, 1, 2, 3, 4, 5});
  Value empty = p.floats({0, 3}, {});
};

TEST_F(Shape, Broadcast) {
  const Value row = p.floats({3}, {1, 2, 3});
  const Value one = p.floats({1}, {7});
  EXPECT_EQ(p.floats(p.build.broadcast(row, {2, 3}, {1})), (Floats{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(p.floats(p.build.broadcast(row, {3, 2}, {0})), (Floats{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(p.floats(p.build.broadcast(one, {2, 2}, {1})), (Floats{7, 7, 7, 7}));
  EXPECT_EQ(p.floats(p.build.broadcast(one, {0, 2}, {0})), Floats{});
  EXPECT_EQ(p.floats(p.build.broadcast(p.build.constant(4, {DType::kF32, {}}), {2}, {})),
            (Floats{4, 4}));
}

TEST_F(Shape, Reshape) {
  EXPECT_EQ(p.floats(p.build.reshape(a, {3, 1, 2})), (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(p.floats(p.build.reshape(empty, {5, 0})), Floats{});
}

TEST_F(Shape, Transpose) {
  EXPECT_EQ(p.floats(p.build.transpose(a, {1, 0})), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(p.floats(p.build.transpose(empty, {1, 0})), Floats{});
}

TEST_F(Shape, Slice) {
  EXPECT_EQ(p.floats(p.build.slice(a, {1, 0}, {2, 3}, {1, 2})), (Floats{3, 5}));
  EXPECT_EQ(p.floats(p.build.slice(a, {1, 0}, {1, 3}, {1, 1})), Floats{});
}

TEST_F(Shape, DynamicSlice) {
  const Value start[] = {p.longs({}, {1}), p.longs({}, {9})};
  EXPECT_EQ(p.floats(p.build.dynamic_slice(a, start, {1, 2})), (Floats{4, 5}));
}

TEST_F(Shape, DynamicUpdateSlice) {
  const Value start[] = {p.longs({}, {0}), p.longs({}, {1})};
  const Value update = p.floats({1, 2}, {8, 9});
  EXPECT_EQ(p.floats(p.build.dynamic_update_slice(a, update, start)), (Floats{0, 8, 9, 3, 4, 5}));
}

TEST_F(Shape, Pad) {
  const Value nine = p.build.constant(9, {DType::kF32, {}});
  EXPECT_EQ(p.floats(p.build.pad(a, nine, {0, -1}, {1, 1}, {0, 1})),
            (Floats{9, 1, 9, 2, 9, 9, 4, 9, 5, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(p.floats(p.build.pad(empty, nine, {1, 0}, {0, 0}, {0, 0})), (Floats{9, 9, 9}));
}

TEST_F(Shape, Concatenate) {
  const Value both[] = {a, p.floats({2, 1}, {8, 9})};
  EXPECT_EQ(p.floats(p.build.concatenate(both, 1)), (Floats{0, 1, 2, 8, 3, 4, 5, 9}));
  const Value with_empty[] = {empty, a, empty};
  EXPECT_EQ(p.floats(p.build.concatenate(with_empty, 0)), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST_F(Shape, Reverse) {
  EXPECT_EQ(p.floats(p.build.reverse(a, {1})), (Floats{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(p.floats(p.build.reverse(a, {1, 0})), (Floats{5, 4, 3, 2, 1, 0}));
}

}  // namespace
}  // namespace torch_pjrt::hlo
