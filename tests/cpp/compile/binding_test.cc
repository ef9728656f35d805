#include "compile/binding.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device_test.h"

namespace torch_pjrt::compile {
namespace {

using pjrt::error_of;

Argument tensor(std::span<const int64_t> dims) {
  return {true, {nullptr, DType::kF32, dims, dims}, 0};
}
Argument number(int64_t n) { return {false, {}, n}; }

class BindingTest : public testing::Test {
 protected:
  BindingTest() {
    s_ = graph_.exprs.add_symbol("s0");
    t_ = graph_.exprs.add_symbol("s1");
    graph_.add_number_input("n", Size::symbolic(s_, 4));
    const ExprId twice = graph_.exprs.add(ExprOp::kMul, {s_, graph_.exprs.add_int(2)});
    graph_.add_tensor_input("x", {DType::kF32,
                                  {Size::symbolic(t_, 3), Size::symbolic(twice, 8)},
                                  {Size::symbolic(twice, 8), 1},
                                  0});
  }

  Graph graph_;
  ExprId s_ = 0;
  ExprId t_ = 0;
};

TEST_F(BindingTest, ReadsIntsAndDims) {
  const Binding binding(graph_);
  const Dims dims = {5, 12};
  EXPECT_EQ(binding.bind(graph_, std::vector{number(6), tensor(dims)}), (Dims{6, 5}));
  EXPECT_EQ(binding.hints(graph_), (Dims{4, 3}));
}

TEST_F(BindingTest, NamesTheInputThatDoesntFit) {
  const Binding binding(graph_);
  const Dims dims = {5, 13};
  EXPECT_EQ(error_of([&] { binding.bind(graph_, std::vector{number(6), tensor(dims)}); }),
            "invalid: input 1 (x): expected f32[s1,(s0*2)] with s0 = 6, s1 = 5, got f32[5,13]");
  EXPECT_EQ(error_of([&] { binding.bind(graph_, std::vector{number(6)}); }),
            "invalid: the program takes 2 inputs, got 1");
  EXPECT_EQ(error_of([&] { binding.bind(graph_, std::vector{tensor(dims), tensor(dims)}); }),
            "invalid: input 0 (n): expected an int, got a tensor");
  const Dims scalar = {};
  EXPECT_NE(error_of([&] { binding.bind(graph_, std::vector{number(6), tensor(scalar)}); }), "");
}

TEST_F(BindingTest, RefusesASizeThatNoInputHas) {
  const ExprId u = graph_.exprs.add_symbol("s2");
  Output output;
  output.kind = Output::Kind::kNumber;
  output.number = Scalar::symbolic(ScalarKind::kInt, u);
  graph_.outputs.push_back(output);
  EXPECT_EQ(error_of([&] { Binding binding(graph_); }),
            "unsupported: the size s2 can't be read from the inputs: it is neither an int input "
            "nor a dim of a tensor");
}

TEST_F(BindingTest, SolvesForASymbolThatNoInputIs) {
  Graph graph;
  const ExprId s = graph.exprs.add_symbol("s0");
  const ExprId t = graph.exprs.add_symbol("s1");
  const ExprId next = graph.exprs.add(ExprOp::kAdd, {s, graph.exprs.add_int(1)});
  const ExprId twice = graph.exprs.add(ExprOp::kMul, {graph.exprs.add_int(2), t});
  const ExprId odd = graph.exprs.add(ExprOp::kAdd, {graph.exprs.add_int(-1), twice});
  graph.add_number_input("n", Size::symbolic(next, 5));
  graph.add_tensor_input("x", {DType::kF32, {Size::symbolic(odd, 7)}, {1}, 0});
  Output output;
  output.kind = Output::Kind::kNumber;
  output.number = Scalar::symbolic(ScalarKind::kInt, s);
  graph.outputs.push_back(output);
  const Binding binding(graph);
  const Dims dims = {9};
  EXPECT_EQ(binding.bind(graph, std::vector{number(3), tensor(dims)}), (Dims{2, 5}));
  EXPECT_EQ(binding.hints(graph), (Dims{4, 4}));
  EXPECT_TRUE(binding.is_free(0));
  std::vector<int64_t> symbols = {2, 5};
  binding.bind_numbers(graph, std::vector{number(8), tensor(dims)}, symbols);
  EXPECT_EQ(symbols, (Dims{7, 5}));
  const Dims even = {8};
  EXPECT_NE(error_of([&] { binding.bind(graph, std::vector{number(3), tensor(even)}); }), "");
}

TEST_F(BindingTest, AnIntThatReachesNoStructureIsFree) {
  graph_.add_number_input("position", Size::symbolic(graph_.exprs.add_symbol("s2"), 7));
  const Binding binding(graph_);
  EXPECT_FALSE(binding.is_free(0));
  EXPECT_TRUE(binding.is_free(2));
  std::vector<int64_t> symbols = {6, 5, 0};
  const Dims dims = {5, 12};
  binding.bind_numbers(graph_, std::vector{number(6), tensor(dims), number(9)}, symbols);
  EXPECT_EQ(symbols, (Dims{6, 5, 9}));
}

}  // namespace
}  // namespace torch_pjrt::compile
