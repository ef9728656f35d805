#include "graph/graph.h"

#include <gtest/gtest.h>

#include "error_of.h"

namespace torch_pjrt {
namespace {

class GraphTest : public testing::Test {
 protected:
  GraphTest() {
    for (const char* name : {"s0", "s1", "s2"}) symbols_.push_back(graph_.exprs.add_symbol(name));
  }

  Size symbol(int k) const { return Size::symbolic(symbols_[k], 5); }
  static SymType row(const Size& n) { return {DType::kF32, {n}, {1}, 0}; }

  Graph graph_;
  std::vector<ExprId> symbols_;
};

TEST_F(GraphTest, ValuesAreNumberedInTheirOrder) {
  EXPECT_EQ(graph_.add_tensor_input("x", row(3)), 0);
  EXPECT_EQ(graph_.add_number_input("n", symbol(0)), 1);
  EXPECT_EQ(graph_.add_tensor_input("y", row(3)), 2);
  EXPECT_EQ(graph_.inputs[2].value, 1) << "a number is no value";
  EXPECT_EQ(graph_.add_node("aten::split", {{"self", {ValueRef{1}}}}, {row(1), row(2)}, "a.py:1"),
            2);
  EXPECT_EQ(graph_.nodes[0].first_result, 2);
  EXPECT_EQ(graph_.add_node("aten::neg", {{"self", {ValueRef{3}}}}, {row(2)}, ""), 4);
  EXPECT_EQ(graph_.nodes[1].first_result, 4);
  EXPECT_EQ(graph_.num_values, 5);
}

TEST_F(GraphTest, ANodeReadsWhatExists) {
  graph_.add_tensor_input("x", row(3));
  const auto add = [&](Arg arg) { graph_.add_node("aten::neg", {{"self", arg}}, {row(3)}, ""); };
  EXPECT_EQ(error_of([&] { add({ValueRef{1}}); }),
            "internal: aten::neg reads the value %1, which doesn't exist");
  EXPECT_NE(error_of([&] { add({ValueRef{-1}}); }), "");
  EXPECT_NE(error_of([&] { add({ArgList{{ValueRef{0}}, {ArgList{{ValueRef{9}}}}}}); }), "");
  EXPECT_EQ(error_of([&] { add({Slot{0}}); }),
            "internal: aten::neg reads the scalar $0, which doesn't exist");
  EXPECT_EQ(graph_.nodes.size(), 0);
  EXPECT_EQ(graph_.num_values, 1);
  EXPECT_EQ(error_of([&] { add({ArgList{{ValueRef{0}}, {None{}}}}); }), "");
}

TEST_F(GraphTest, ScalarsHaveAClass) {
  const auto class_of = [](ScalarKind kind, const Number& n) {
    return Scalar::constant(kind, n).scalar_class;
  };
  EXPECT_EQ(class_of(ScalarKind::kInt, Number::of_int(0)), ScalarClass::kZero);
  EXPECT_EQ(class_of(ScalarKind::kInt, Number::of_int(1)), ScalarClass::kOne);
  EXPECT_EQ(class_of(ScalarKind::kInt, Number::of_int(-1)), ScalarClass::kMinusOne);
  EXPECT_EQ(class_of(ScalarKind::kInt, Number::of_int(2)), ScalarClass::kOther);
  EXPECT_EQ(class_of(ScalarKind::kBool, Number::of_int(1)), ScalarClass::kOne);
  EXPECT_EQ(class_of(ScalarKind::kFloat, Number::of_float(0.0)), ScalarClass::kZero);
  EXPECT_EQ(class_of(ScalarKind::kFloat, Number::of_float(-0.0)), ScalarClass::kOther)
      << "x + -0.0 keeps the sign of a zero";
  EXPECT_EQ(class_of(ScalarKind::kFloat, Number::of_float(0.0 / 0.0)), ScalarClass::kOther);
  EXPECT_EQ(Scalar::symbolic(ScalarKind::kInt, 0).scalar_class, ScalarClass::kOther);
  EXPECT_EQ(dtype_of(ScalarKind::kBool), DType::kBool);
  EXPECT_EQ(dtype_of(ScalarKind::kInt), DType::kI64);
  EXPECT_EQ(dtype_of(ScalarKind::kFloat), DType::kF64);
}

TEST_F(GraphTest, SymbolsOfDimsAndArgumentsAreStructural) {
  EXPECT_EQ(structural_symbols(graph_), (std::vector<bool>{false, false, false}));
  graph_.add_tensor_input("x", row(symbol(0)));
  EXPECT_EQ(structural_symbols(graph_), (std::vector<bool>{true, false, false}));
  const Size twice =
      Size::symbolic(graph_.exprs.add(ExprOp::kMul, {symbols_[2], graph_.exprs.add_int(2)}), 10);
  graph_.add_node("aten::view", {{"self", {ValueRef{0}}}, {"size", {ArgList{{twice}}}}},
                  {row(symbol(0))}, "");
  EXPECT_EQ(structural_symbols(graph_), (std::vector<bool>{true, false, true}));
}

TEST_F(GraphTest, SymbolsOfResultsAndOfComputedOutputsAreStructural) {
  graph_.add_tensor_input("x", row(3));
  graph_.add_node("aten::empty", {}, {row(symbol(1))}, "");
  EXPECT_EQ(structural_symbols(graph_), (std::vector<bool>{false, true, false}));
  Output output;
  output.kind = Output::Kind::kValue;
  output.type = {DType::kF32, {3}, {symbol(2)}, 0};
  graph_.outputs.push_back(output);
  EXPECT_EQ(structural_symbols(graph_), (std::vector<bool>{false, true, true}));
}

TEST_F(GraphTest, SymbolsOfWhereTensorsLieInMemoryAreNot) {
  graph_.add_tensor_input("x", {DType::kF32, {3}, {symbol(0)}, symbol(0)});
  graph_.add_node("aten::slice.Tensor", {}, {{DType::kF32, {3}, {symbol(1)}, symbol(1)}}, "");
  Output output;
  output.kind = Output::Kind::kValue;
  output.type = {DType::kF32, {3}, {1}, symbol(2)};
  graph_.outputs.push_back(output);
  EXPECT_EQ(structural_symbols(graph_), (std::vector<bool>{false, false, false}));
}

TEST_F(GraphTest, SymbolsOfNumbersAndOfViewsAreNot) {
  graph_.add_number_input("n", symbol(0));
  graph_.add_tensor_input("x", row(3));
  const Slot slot = graph_.add_scalar(Scalar::symbolic(ScalarKind::kInt, symbols_[0]));
  graph_.add_node("aten::add.Scalar", {{"self", {ValueRef{0}}}, {"other", {slot}}}, {row(3)}, "");
  Output number;
  number.kind = Output::Kind::kNumber;
  number.number = Scalar::symbolic(ScalarKind::kInt, symbols_[1]);
  Output view;
  view.kind = Output::Kind::kView;
  view.input = 1;
  view.type = row(symbol(2));
  graph_.outputs = {number, view};
  EXPECT_EQ(structural_symbols(graph_), (std::vector<bool>{false, false, false}));
}

}  // namespace
}  // namespace torch_pjrt
