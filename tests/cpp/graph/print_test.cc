#include <gtest/gtest.h>

#include "graph/graph.h"

namespace torch_pjrt {
namespace {

TEST(PrintTest, EveryKindOfArgumentAndOutput) {
  Graph g;
  const ExprId s = g.exprs.add_symbol("s0");
  const Size rows = Size::symbolic(s, 4);
  const SymType matrix{DType::kF32, {rows, 16}, {16, 1}, 0};
  g.add_number_input("n", rows);
  g.add_tensor_input("x", matrix);
  const Slot half = g.add_scalar(Scalar::constant(ScalarKind::kFloat, Number::of_float(0.5)));
  const Slot count = g.add_scalar(Scalar::symbolic(ScalarKind::kInt, s));
  g.add_node("aten::add.Scalar", {{"self", {ValueRef{0}}}, {"other", {half}}, {"alpha", {count}}},
             {matrix}, "model.py:3");
  g.add_node("aten::made_up",
             {{"a", {None{}}},
              {"b", {ArgList{{ValueRef{1}}, {None{}}, {rows}}}},
              {"c", {true}},
              {"d", {1.5}},
              {"e", {std::string("tanh")}},
              {"f", {DType::kBF16}},
              {"g", {ArgList{}}}},
             {matrix, {DType::kI64, {}, {}, 0}}, "");
  g.outputs = {{Output::Kind::kValue, 3, -1, {DType::kI64, {}, {}, 0}, {}},
               {Output::Kind::kInput, 0, 1, {}, {}},
               {Output::Kind::kView, 0, 1, {DType::kF32, {16, rows}, {1, 16}, 2}, {}},
               {Output::Kind::kNumber, 0, -1, {}, Scalar::symbolic(ScalarKind::kInt, s)},
               {}};
  EXPECT_EQ(print(g),
            R"(input n = s0
%0 = input x : f32[s0,16] strides [16,1]
%1 = aten::add.Scalar(self=%0, other=$0:0.5, alpha=$1:s0) : f32[s0,16]  # model.py:3
%2, %3 = aten::made_up(a=None, b=[%1, None, s0], c=True, d=1.5, e='tanh', f=bf16, g=[]) : f32[s0,16] i64[]
return %3:strides[] x view(x, [16,s0], [1,16], 2) s0 None
)");
}

}  // namespace
}  // namespace torch_pjrt
