// What makes another program and what doesn't: each case changes one thing of the same graph.
#include <gtest/gtest.h>

#include <functional>

#include "graph/graph.h"

namespace torch_pjrt {
namespace {

using Change = std::function<void(Graph&)>;

// add(x, y, alpha=2.5), then sum over dim 1, with a number input, a view and a number as outputs.
Graph graph() {
  Graph g;
  const Size rows = Size::symbolic(g.exprs.add_symbol("s0"), 4);
  const SymType matrix{DType::kF32, {rows, 16}, {16, 1}, 0};
  g.add_tensor_input("x", matrix);
  g.add_number_input("n", rows);
  g.add_tensor_input("y", matrix);
  const Slot alpha = g.add_scalar(Scalar::constant(ScalarKind::kFloat, Number::of_float(2.5)));
  g.add_node("aten::add.Tensor",
             {{"self", {ValueRef{0}}}, {"other", {ValueRef{1}}}, {"alpha", {alpha}}}, {matrix},
             "a.py:1");
  g.add_node("aten::sum.dim_IntList",
             {{"self", {ValueRef{2}}},
              {"dim", {ArgList{{Size(1)}}}},
              {"keepdim", {false}},
              {"dtype", {None{}}}},
             {{DType::kF32, {rows}, {1}, 0}}, "a.py:2");
  Output sum{Output::Kind::kValue, 3, -1, {DType::kF32, {rows}, {1}, 0}, {}};
  Output view{Output::Kind::kView, 0, 0, matrix, {}};
  Output number{Output::Kind::kNumber, 0, -1, {}, Scalar::symbolic(ScalarKind::kInt, 0)};
  g.outputs = {sum, view, number};
  return g;
}

bool same_program(const Change& change) {
  Graph changed = graph();
  change(changed);
  return canonical_bytes(changed) == canonical_bytes(graph());
}

Arg& argument(Graph& g, int node, int i) { return g.nodes[node].args[i].arg; }

TEST(CanonicalTest, EqualGraphsHaveEqualBytes) {
  EXPECT_TRUE(same_program([](Graph&) {}));
}

TEST(CanonicalTest, NamesSourcesHintsAndNumbersAreNotInThem) {
  EXPECT_TRUE(same_program([](Graph& g) { g.inputs[0].name = "z"; }));
  EXPECT_TRUE(same_program([](Graph& g) { g.nodes[0].source = "b.py:9"; }));
  EXPECT_TRUE(same_program([](Graph& g) { g.nodes[0].args[0].name = "input"; }));
  EXPECT_TRUE(same_program([](Graph& g) { g.inputs[0].type.dims[0].value = 7; }));
  EXPECT_TRUE(same_program([](Graph& g) {
    g.scalars[0] = Scalar::constant(ScalarKind::kFloat, Number::of_float(3.5));
  }));
  EXPECT_FALSE(same_program([](Graph& g) {
    g.scalars[0] = Scalar::symbolic(ScalarKind::kFloat, 0);
  })) << "a check may be left out for a constant";
}

TEST(CanonicalTest, NeitherAreLayoutsOfInputsNorWhatTheHostReturns) {
  EXPECT_TRUE(same_program([](Graph& g) { g.inputs[0].type.strides = {1, 4}; }));
  EXPECT_TRUE(same_program([](Graph& g) { g.inputs[0].type.offset = 3; }));
  EXPECT_TRUE(same_program([](Graph& g) { g.nodes[0].results[0].strides = {1, 4}; }));
  EXPECT_TRUE(same_program([](Graph& g) { g.outputs[1].type.offset = 1; }));
  EXPECT_TRUE(same_program([](Graph& g) { g.outputs[1].input = 1; }));
  EXPECT_TRUE(same_program([](Graph& g) { g.outputs[2].number.kind = ScalarKind::kFloat; }));
}

TEST(CanonicalTest, TypesAreInThem) {
  EXPECT_FALSE(same_program([](Graph& g) { g.inputs[0].type.dtype = DType::kF64; }));
  EXPECT_FALSE(same_program([](Graph& g) { g.inputs[0].type.dims[1] = 17; }));
  EXPECT_FALSE(same_program([](Graph& g) { g.inputs[0].type.dims[0] = 4; }))
      << "no longer symbolic";
  EXPECT_FALSE(same_program([](Graph& g) { g.inputs[0].type.dims.push_back(1); }));
  EXPECT_FALSE(same_program([](Graph& g) { g.nodes[1].results[0].dims[0] = 4; }));
  EXPECT_FALSE(same_program([](Graph& g) { g.nodes[0].results[0].dtype = DType::kF64; }));
}

TEST(CanonicalTest, NodesAreInThem) {
  EXPECT_FALSE(same_program([](Graph& g) { g.nodes[0].op = "aten::sub.Tensor"; }));
  EXPECT_FALSE(same_program([](Graph& g) { argument(g, 0, 0) = {ValueRef{1}}; }));
  EXPECT_FALSE(same_program([](Graph& g) { argument(g, 1, 1) = {ArgList{{Size(0)}}}; }));
  EXPECT_FALSE(same_program([](Graph& g) { argument(g, 1, 1) = {Size(1)}; })) << "a list of it";
  EXPECT_FALSE(same_program([](Graph& g) { argument(g, 1, 2) = {true}; }));
  EXPECT_FALSE(same_program([](Graph& g) { argument(g, 1, 2) = {Size(0)}; })) << "false or 0";
  EXPECT_FALSE(same_program([](Graph& g) { argument(g, 1, 3) = {DType::kF32}; }));
  EXPECT_FALSE(same_program([](Graph& g) { g.nodes.pop_back(); }));
  EXPECT_FALSE(same_program([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }));
}

TEST(CanonicalTest, StructuralNumbersAndTextsAreInThem) {
  const auto with = [](Arg arg) {
    Graph g;
    g.add_node("aten::rand", {{"a", std::move(arg)}}, {}, "");
    return canonical_bytes(g);
  };
  EXPECT_NE(with({0.5}), with({0.25}));
  EXPECT_NE(with({0.0}), with({-0.0}));
  EXPECT_EQ(with({0.5}), with({0.5}));
  EXPECT_NE(with({std::string("ab")}), with({std::string("ba")}));
  EXPECT_NE(with({None{}}), with({ArgList{}}));
  // The end of a list or text is known by its length.
  EXPECT_NE(with({ArgList{{Size(1)}, {ArgList{{Size(2)}}}}}),
            with({ArgList{{Size(1)}, {ArgList{}}, {Size(2)}}}));
  EXPECT_NE(with({ArgList{{std::string("ab")}, {std::string("c")}}}),
            with({ArgList{{std::string("a")}, {std::string("bc")}}}));
}

TEST(CanonicalTest, KindAndClassOfScalarsAreInThem) {
  const auto set = [](ScalarKind kind, const Number& n) {
    return same_program([&](Graph& g) { g.scalars[0] = Scalar::constant(kind, n); });
  };
  EXPECT_FALSE(set(ScalarKind::kInt, Number::of_int(3)));
  EXPECT_FALSE(set(ScalarKind::kFloat, Number::of_float(1)));
  EXPECT_FALSE(set(ScalarKind::kFloat, Number::of_float(-1)));
  EXPECT_FALSE(set(ScalarKind::kFloat, Number::of_float(0)));
  EXPECT_TRUE(set(ScalarKind::kFloat, Number::of_float(-0.0)));
}

TEST(CanonicalTest, WhichExpressionAScalarIsIsInThem) {
  const auto with = [](int which) {
    Graph g;
    const ExprId s = g.exprs.add_symbol("s0");
    const ExprId ids[] = {s, g.exprs.add(ExprOp::kAdd, {s, s})};
    g.add_scalar(Scalar::symbolic(ScalarKind::kInt, ids[which]));
    return canonical_bytes(g);
  };
  EXPECT_EQ(with(0), with(0));
  EXPECT_NE(with(0), with(1)) << "the program may hold what the sizes decide";
}

TEST(CanonicalTest, ExpressionsAreInThem) {
  const auto with = [](ExprOp op, int64_t by) {
    Graph g;
    const ExprId s = g.exprs.add_symbol("s0");
    const Size n = Size::symbolic(g.exprs.add(op, {s, g.exprs.add_int(by)}), 8);
    g.add_tensor_input("x", {DType::kF32, {n}, {1}, 0});
    return canonical_bytes(g);
  };
  EXPECT_EQ(with(ExprOp::kMul, 2), with(ExprOp::kMul, 2));
  EXPECT_NE(with(ExprOp::kMul, 2), with(ExprOp::kMul, 4));
  EXPECT_NE(with(ExprOp::kMul, 2), with(ExprOp::kFloorDiv, 2));
}

TEST(CanonicalTest, TheNameOfASymbolIsNotInThemButWhichOneIs) {
  const auto with = [](const std::string& first, const std::string& second, int used) {
    Graph g;
    const ExprId ids[] = {g.exprs.add_symbol(first), g.exprs.add_symbol(second)};
    g.add_tensor_input("x", {DType::kF32, {Size::symbolic(ids[used], 8)}, {1}, 0});
    return canonical_bytes(g);
  };
  EXPECT_EQ(with("s0", "s1", 0), with("s7", "s9", 0));
  EXPECT_NE(with("s0", "s1", 0), with("s0", "s1", 1));
}

TEST(CanonicalTest, InputsAndOutputsAreInThem) {
  EXPECT_FALSE(same_program([](Graph& g) { std::swap(g.inputs[0], g.inputs[1]); }));
  EXPECT_FALSE(same_program([](Graph& g) { g.inputs[1].number = 4; }));
  EXPECT_FALSE(same_program([](Graph& g) { g.outputs[0].value = 2; }));
  EXPECT_FALSE(same_program([](Graph& g) { g.outputs[0].type.strides[0] = 2; }));
  EXPECT_FALSE(same_program([](Graph& g) { std::swap(g.outputs[0], g.outputs[1]); }));
  EXPECT_FALSE(same_program([](Graph& g) { g.outputs.push_back({}); }));
}

TEST(CanonicalTest, AnInputIsNotTakenForAResult) {
  const SymType type{DType::kF32, {4}, {1}, 0};
  const auto with = [&](bool input_first) {
    Graph g;
    g.add_tensor_input("x", type);
    if (input_first) g.add_tensor_input("y", type);
    g.add_node("aten::neg", {{"self", {ValueRef{0}}}}, {type}, "");
    if (!input_first) g.add_tensor_input("y", type);
    g.outputs = {{Output::Kind::kValue, 2, -1, type, {}}};
    return canonical_bytes(g);
  };
  EXPECT_NE(with(true), with(false));
}

}  // namespace
}  // namespace torch_pjrt
