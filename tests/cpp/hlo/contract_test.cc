// Contractions, gather and scatter, computed by the plugin.
#include "program.h"

namespace torch_pjrt::hlo {
namespace {

using Floats = std::vector<float>;

TEST(Dot, Matrices) {
  Program p;
  const Value a = p.floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Value b = p.floats({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(p.floats(p.build.dot_general(a, b, {}, {}, {1}, {0}, DType::kF32)),
            (Floats{22, 28, 49, 64}));
  EXPECT_EQ(p.floats(p.build.dot_general(a, b, {}, {}, {0}, {1}, DType::kF32)),
            (Floats{9, 19, 29, 12, 26, 40, 15, 33, 51}));
}

TEST(Dot, BatchedOuterAndEmpty) {
  Program p;
  const Value a = p.floats({2, 1, 2}, {1, 2, 3, 4});
  const Value b = p.floats({2, 2, 1}, {5, 6, 7, 8});
  EXPECT_EQ(p.floats(p.build.dot_general(a, b, {0}, {0}, {2}, {1}, DType::kF32)), (Floats{17, 53}));
  const Value v = p.floats({2}, {1, 2});
  const Value w = p.floats({2}, {3, 4});
  EXPECT_EQ(p.floats(p.build.dot_general(v, w, {}, {}, {}, {}, DType::kF32)), (Floats{3, 4, 6, 8}));
  EXPECT_EQ(p.floats(p.build.dot_general(v, w, {}, {}, {0}, {0}, DType::kF32)), (Floats{11}));
  const Value thin = p.floats({2, 0}, {});
  const Value flat = p.floats({0, 2}, {});
  EXPECT_EQ(p.floats(p.build.dot_general(thin, flat, {}, {}, {1}, {0}, DType::kF32)),
            (Floats{0, 0, 0, 0}));
  EXPECT_EQ(p.floats(p.build.dot_general(flat, thin, {}, {}, {1}, {0}, DType::kF32)), Floats{});
}

TEST(Dot, EveryDType) {
  for (int k = static_cast<int>(DType::kU8); k < kNumDTypes; ++k) {
    const auto dtype = static_cast<DType>(k);
    Program p;
    const Value twos = p.build.constant(2, {dtype, {2, 3}});
    const Value threes = p.build.constant(3, {dtype, {3, 2}});
    const auto data = p.run({p.build.dot_general(twos, threes, {}, {}, {1}, {0}, dtype),
                             p.build.constant(18, {dtype, {2, 2}})});
    EXPECT_EQ(data[0], data[1]) << name(dtype);
  }
  Program p;
  const Value halves = p.build.constant(0.5, {DType::kBF16, {1, 4}});
  EXPECT_EQ(p.floats(p.build.dot_general(halves, halves, {}, {}, {1}, {1}, DType::kF32)),
            Floats{1});
}

Convolution one_dim() {
  Convolution c{0, 2, {1}, 1, 2, {0}, 0, 2, {1}, {1}, {0}, {0}, {1}, {1}};
  return c;
}

TEST(Conv, OneDim) {
  Program p;
  const Value x = p.floats({1, 4, 1}, {1, 2, 3, 4});
  const Value k = p.floats({2, 1, 1}, {1, 10});
  Convolution c = one_dim();
  EXPECT_EQ(p.floats(p.build.convolution(x, k, c, DType::kF32)), (Floats{21, 32, 43}));
  c.low = {1};
  c.strides = {2};
  EXPECT_EQ(p.floats(p.build.convolution(x, k, c, DType::kF32)), (Floats{10, 32}));
  c = one_dim();
  c.lhs_dilation = {2};
  c.rhs_dilation = {2};
  EXPECT_EQ(p.floats(p.build.convolution(x, k, c, DType::kF32)), (Floats{21, 0, 32, 0, 43}));
}

TEST(Conv, TwoDimsInTorchOrder) {
  Program p;
  const Value x = p.floats({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Value k = p.floats({1, 2, 2, 2}, {1, 1, 1, 1, 2, 2, 2, 2});
  const Convolution c{0, 1,      {2, 3}, 1,      0,      {2, 3}, 0,
                      1, {2, 3}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}};
  EXPECT_EQ(p.floats(p.build.convolution(x, k, c, DType::kF32)), Floats{62});
}

TEST(Conv, Groups) {
  Program p;
  const Value x = p.floats({1, 2, 2}, {1, 2, 3, 4});  // [b, 0, f]
  const Value k = p.floats({1, 1, 2}, {10, 100});     // [0, i, o]
  Convolution c = one_dim();
  c.feature_group_count = 2;
  EXPECT_EQ(p.floats(p.build.convolution(x, k, c, DType::kF32)), (Floats{10, 200, 30, 400}));
  const Value y = p.floats({2, 1, 1}, {3, 4});
  c = one_dim();
  c.batch_group_count = 2;
  EXPECT_EQ(p.floats(p.build.convolution(y, k, c, DType::kF32)), (Floats{30, 400}));
}

TEST(Conv, OfNoSpatialDimsAndOfNothing) {
  Program p;
  const Value x = p.floats({1, 2}, {1, 2});
  const Value k = p.floats({2, 1}, {3, 4});
  const Convolution c{0, 1, {}, 0, 1, {}, 0, 1, {}, {}, {}, {}, {}, {}};
  EXPECT_EQ(p.floats(p.build.convolution(x, k, c, DType::kF32)), Floats{11});
  const Value none = p.floats({0, 4, 1}, {});
  const Value two = p.floats({2, 1, 1}, {1, 10});
  EXPECT_EQ(p.floats(p.build.convolution(none, two, one_dim(), DType::kF32)), Floats{});
  const Value no_features = p.floats({1, 4, 0}, {});
  const Value no_inputs = p.floats({2, 0, 1}, {});
  EXPECT_EQ(p.floats(p.build.convolution(no_features, no_inputs, one_dim(), DType::kF32)),
            (Floats{0, 0, 0}));
}

TEST(Gather, Rows) {
  Program p;
  const Value table = p.floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const Value rows = p.longs({2}, {2, 0});
  const Gather g{{1}, {0}, {}, {}, {0}, 1, {1, 2}};
  EXPECT_EQ(p.floats(p.build.gather(table, rows, g)), (Floats{5, 6, 1, 2}));
  const Value no_rows = p.longs({0}, {});
  EXPECT_EQ(p.floats(p.build.gather(table, no_rows, g)), Floats{});
}

TEST(Gather, WithBatchingDims) {
  Program p;
  const Value table = p.floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Value columns = p.longs({2, 2}, {2, 0, 1, 1});
  const Gather g{{}, {1}, {0}, {0}, {1}, 2, {1, 1}};
  EXPECT_EQ(p.floats(p.build.gather(table, columns, g)), (Floats{3, 1, 5, 5}));
}

TEST(Gather, Elements) {
  Program p;
  const Value table = p.floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Value at = p.longs({2, 2}, {1, 2, 0, 1});
  const Gather g{{}, {0, 1}, {}, {}, {0, 1}, 1, {1, 1}};
  EXPECT_EQ(p.floats(p.build.gather(table, at, g)), (Floats{6, 2}));
}

TEST(Scatter, AddsRows) {
  Program p;
  const Value table = p.floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const Value rows = p.longs({3}, {2, 0, 2});
  const Value updates = p.floats({3, 2}, {10, 20, 30, 40, 50, 60});
  const Scatter s{{1}, {0}, {}, {}, {0}, 1};
  EXPECT_EQ(p.floats(p.build.scatter(table, rows, updates, s, combine(p.build, Op::kAdd))),
            (Floats{31, 42, 3, 4, 65, 86}));
}

TEST(Scatter, ReplacesAndDropsWhatIsOutside) {
  Program p;
  const Value table = p.floats({3}, {1, 2, 3});
  const Value at = p.longs({2, 1}, {1, 7});
  const Value updates = p.floats({2}, {10, 20});
  Scatter s{{}, {0}, {}, {}, {0}, 1};
  s.unique_indices = true;
  const auto replace = [](std::span<const Value> v) { return std::vector<Value>{v[1]}; };
  EXPECT_EQ(p.floats(p.build.scatter(table, at, updates, s, replace)), (Floats{1, 10, 3}));
  const Value nowhere = p.longs({0, 1}, {});
  const Value nothing = p.floats({0}, {});
  EXPECT_EQ(p.floats(p.build.scatter(table, nowhere, nothing, s, replace)), (Floats{1, 2, 3}));
}

TEST(Scatter, WithBatchingDims) {
  Program p;
  const Value table = p.floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Value columns = p.longs({2, 1}, {2, 0});
  const Value updates = p.floats({2, 1}, {10, 20});
  const Scatter s{{}, {1}, {0}, {0}, {1}, 2};
  EXPECT_EQ(p.floats(p.build.scatter(table, columns, updates, s, combine(p.build, Op::kMaximum))),
            (Floats{1, 2, 10, 20, 5, 6}));
}

TEST(TriangularSolve, ReadsOneTriangle) {
  Program p;
  const Value a = p.floats({2, 2}, {2, 9, 1, 4});
  const Value b = p.floats({2, 1}, {4, 10});
  EXPECT_EQ(p.floats(p.build.triangular_solve(a, b, true, true, false)), (Floats{2, 2}));
  EXPECT_EQ(p.floats(p.build.triangular_solve(a, b, true, true, true)), (Floats{4, 6}));
  const Value row = p.floats({1, 2}, {4, 22});
  EXPECT_EQ(p.floats(p.build.triangular_solve(a, row, false, false, false)), (Floats{2, 1}));
}

TEST(TriangularSolve, RefusesWhatDoesNotFit) {
  Program p;
  const Value a = p.floats({2, 2}, {1, 0, 0, 1});
  const Value b = p.floats({3, 1}, {1, 2, 3});
  EXPECT_THROW(p.build.triangular_solve(a, b, true, true, false), Error);
}

}  // namespace
}  // namespace torch_pjrt::hlo
