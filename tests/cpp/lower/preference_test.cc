#include "lower/preference.h"

#include <gtest/gtest.h>

namespace torch_pjrt::lower {
namespace {

class PreferenceTest : public testing::Test {
 protected:
  static SymType type(const Dims& dims) {
    SymType t{DType::kF32, {}, {}, 0};
    for (const int64_t d : dims) t.dims.emplace_back(d);
    for (const int64_t s : contiguous_strides(dims)) t.strides.emplace_back(s);
    return t;
  }
  ValueId input(const Dims& dims) {
    return graph_.inputs[graph_.add_tensor_input("x", type(dims))].value;
  }
  ValueId node(const std::string& op, std::vector<NamedArg> args, const Dims& dims) {
    return graph_.add_node(op, std::move(args), {type(dims)}, "");
  }
  ValueId convolution(ValueId x, ValueId weight, bool transposed = false, int64_t groups = 1,
                      const Dims& dims = {1, 8, 6, 6}) {
    return node("aten::convolution",
                {{"input", {ValueRef{x}}},
                 {"weight", {ValueRef{weight}}},
                 {"transposed", {transposed}},
                 {"groups", {Size{groups}}}},
                dims);
  }
  ValueId mm(ValueId a, ValueId b, int64_t rows = 4) {
    return node("aten::mm", {{"self", {ValueRef{a}}}, {"mat2", {ValueRef{b}}}}, {rows, 8});
  }
  ValueId t(ValueId x) { return node("aten::t", {{"self", {ValueRef{x}}}}, {5, 8}); }
  std::optional<Order> preferred(int32_t index, const Options& options = {}) {
    const auto preference = preferred_orders(graph_, options)[index];
    return preference ? std::optional(preference->order) : std::nullopt;
  }

  Graph graph_;
};

TEST_F(PreferenceTest, AKernelsWindowGoesFirst) {
  const ValueId x = input({1, 4, 6, 6});
  convolution(x, input({8, 4, 3, 3}));
  EXPECT_EQ(preferred(1), (Order{2, 3, 1, 0}));
  EXPECT_EQ(preferred(0), std::nullopt);
  EXPECT_EQ(preferred(1, {.platform = "cuda"}), std::nullopt);
}

TEST_F(PreferenceTest, OfAGroupedOrTransposedConvolutionNothing) {
  const ValueId x = input({1, 4, 6, 6});
  convolution(x, input({8, 4, 3, 3}), true);
  convolution(x, input({8, 2, 3, 3}), false, 2);
  EXPECT_EQ(preferred(1), std::nullopt);
  EXPECT_EQ(preferred(2), std::nullopt);
}

TEST_F(PreferenceTest, ADepthwiseKernelsElementsGoFirstAndSmallOnesPay) {
  const ValueId x = input({1, 8, 6, 6});
  convolution(x, input({8, 1, 3, 3}), false, 8);
  convolution(x, input({8, 8, 3, 3}));
  EXPECT_EQ(preferred(1), (Order{2, 3, 0, 1}));
  const auto all = preferred_orders(graph_, {});
  EXPECT_LT(all[1]->least_bytes, all[2]->least_bytes);
}

TEST_F(PreferenceTest, ALargeKernelThatEachImageReadsOftenIsKeptForGoodOnly) {
  const ValueId x = input({2, 8, 28, 14});
  convolution(x, input({8, 8, 3, 3}), false, 1, {2, 8, 28, 14});
  convolution(x, input({8, 8, 3, 3}), false, 1, {2, 8, 28, 13});
  const auto all = preferred_orders(graph_, {});
  EXPECT_EQ(all[1]->order, all[2]->order);
  EXPECT_EQ(all[1]->most_bytes, 1 << 20);
  EXPECT_GT(all[2]->most_bytes, int64_t{1} << 40);
}

TEST_F(PreferenceTest, AProductsSecondOperandSeenThroughViews) {
  const ValueId x = input({4, 5});
  mm(x, t(input({8, 5})));
  mm(x, input({5, 8}));
  const ValueId turned = node(
      "aten::permute",
      {{"self", {ValueRef{input({8, 5})}}}, {"dims", {ArgList{{Size{-1}}, {Size{0}}}}}}, {5, 8});
  mm(x, turned);
  EXPECT_EQ(preferred(1), (Order{1, 0}));
  EXPECT_EQ(preferred(2), (Order{0, 1}));
  EXPECT_EQ(preferred(3), (Order{1, 0}));
}

TEST_F(PreferenceTest, OneRowTakesWhatComes) {
  mm(input({1, 5}), t(input({8, 5})), 1);
  EXPECT_EQ(preferred(1), std::nullopt);
}

TEST_F(PreferenceTest, ReadersThatDifferGetWhatComes) {
  const ValueId w = input({8, 5});
  const ValueId x = input({4, 5});
  mm(x, t(w));
  EXPECT_EQ(preferred(0), (Order{1, 0}));
  node("aten::embedding", {{"weight", {ValueRef{w}}}, {"indices", {ValueRef{x}}}}, {4, 5, 5});
  EXPECT_EQ(preferred(0), std::nullopt);
}

TEST_F(PreferenceTest, NodesWithoutResultsAreReaders) {
  const ValueId w = input({5, 8});
  mm(input({4, 5}), w);
  graph_.add_node("torch_pjrt::effect", {{"self", {ValueRef{w}}}}, {}, "");
  EXPECT_EQ(preferred(0), std::nullopt);
}

TEST_F(PreferenceTest, WhatIsWrittenOrGivenBackStays) {
  const ValueId x = input({4, 5});
  const ValueId a = input({5, 8});
  const ValueId b = input({5, 8});
  const ValueId y = mm(x, a);
  mm(x, b);
  graph_.add_mutation({1, y});
  graph_.outputs.push_back({Output::Kind::kValue, b, -1, type({5, 8}), {}});
  EXPECT_EQ(preferred(1), std::nullopt);
  EXPECT_EQ(preferred(2), std::nullopt);
}

}  // namespace
}  // namespace torch_pjrt::lower
