// Graphs as bytes: whole ones come back, and others are refused.
#include "graph/serialize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "error_of.h"

namespace torch_pjrt {
namespace {

// With something of each kind in it.
Graph graph() {
  Graph g;
  const ExprId symbol = g.exprs.add_symbol("s0");
  const Size rows = Size::symbolic(symbol, 4);
  const Size half = Size::symbolic(g.exprs.add(ExprOp::kFloorDiv, {symbol, g.exprs.add_int(2)}), 2);
  g.exprs.add_float(0.5);
  const SymType matrix{DType::kF32, {rows, 16}, {16, 1}, half};
  g.add_tensor_input("x", matrix);
  g.add_number_input("n", rows);
  const ValueId draw = g.add_draw();
  g.add_tensor_input("y", matrix);
  const Slot alpha = g.add_scalar(Scalar::constant(
      ScalarKind::kFloat, Number::of_float(std::numeric_limits<double>::quiet_NaN())));
  const Slot complex = g.add_complex(1, -0.0);
  g.add_scalar(Scalar::symbolic(ScalarKind::kInt, symbol));
  g.add_node("aten::some_op",
             {{"self", {ValueRef{0}}},
              {"list", {ArgList{{ValueRef{draw}}, {None()}, {ArgList{{half}, {true}}}}}},
              {"alpha", {alpha}},
              {"complex", {complex}},
              {"real", {-0.0}},
              {"text", {std::string("a\0b", 3)}},
              {"dtype", {DType::kBF16}}},
             {matrix, {DType::kI64, {}, {}, 0}}, "a.py:1");
  Output value{Output::Kind::kValue, 3, -1, matrix, {}};
  Output view{Output::Kind::kView, 0, 0, matrix, {}};
  Output number{Output::Kind::kNumber, 0, -1, {}, Scalar::symbolic(ScalarKind::kInt, 0)};
  Output part{Output::Kind::kPart, 0, -1, matrix, {}, 0};
  Output same{Output::Kind::kSame, 0, -1, {}, {}, 3};
  g.outputs = {value, view, number, part, same, {}, value};
  g.num_hidden = 1;
  g.inputs[0].is_weight = true;
  g.add_mutation({2, 3});
  return g;
}

TEST(SerializeTest, ComesBackWhole) {
  const std::string bytes = to_bytes(graph());
  const Graph back = graph_from_bytes(bytes);
  EXPECT_EQ(to_bytes(back), bytes);
  EXPECT_EQ(canonical_bytes(back), canonical_bytes(graph()));
  EXPECT_EQ(print(back), print(graph()));
  EXPECT_EQ(back.inputs[0].name, "x");
  EXPECT_TRUE(back.inputs[0].is_weight);
  EXPECT_FALSE(back.inputs[1].is_weight);
  EXPECT_EQ(back.inputs[0].type.offset.value, 2);
  EXPECT_EQ(back.nodes[0].source, "a.py:1");
  EXPECT_TRUE(std::isnan(back.scalars[0].number.f));
  EXPECT_TRUE(std::signbit(std::get<double>(back.nodes[0].args[4].arg.v)));
  EXPECT_EQ(back.num_hidden, 1);
}

TEST(SerializeTest, AnEmptyGraphIsOne) {
  EXPECT_EQ(to_bytes(graph_from_bytes(to_bytes({}))), to_bytes({}));
}

TEST(SerializeTest, OtherSizesAreErrors) {
  const std::string bytes = to_bytes(graph());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_of([&] { graph_from_bytes(std::string_view(bytes).substr(0, size)); }), "");
  }
  EXPECT_NE(error_of([&] { graph_from_bytes(bytes + "x"); }).find("bytes too many"),
            std::string::npos);
}

// Each is refused, or is a graph again: the same bytes.
TEST(SerializeTest, NoBytesDoHarm) {
  const std::string good = to_bytes(graph());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bad = good;
    for (int k = 0; k < 1 + i % 3; ++k) {
      bad[random() % bad.size()] = static_cast<char>(i % 2 == 0 ? random() % 256 : random() % 3);
    }
    try {
      const Graph read = graph_from_bytes(bad);
      canonical_bytes(read);
      print(read);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kIo) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

std::string fault(const std::function<void(Graph&)>& change) {
  Graph changed = graph();
  change(changed);
  return error_of([&] { verify(changed); });
}

TEST(SerializeTest, WhatIsntSoundIsRefused) {
  EXPECT_EQ(fault([](Graph&) {}), "");
  EXPECT_NE(fault([](Graph& g) { g.nodes[0].args[0].arg = {ValueRef{3}}; }), "") << "its own";
  EXPECT_NE(fault([](Graph& g) { g.nodes[0].args[0].arg = {ValueRef{-1}}; }), "");
  EXPECT_NE(fault([](Graph& g) { g.nodes[0].args[2].arg = {Slot{9}}; }), "");
  EXPECT_NE(fault([](Graph& g) { g.nodes[0].args[1].arg = {ArgList{{Slot{9}}}}; }), "");
  EXPECT_NE(fault([](Graph& g) { g.nodes[0].first_result = 0; }), "");
  EXPECT_NE(fault([](Graph& g) { g.inputs[0].type.dims[0].expr = 99; }), "");
  EXPECT_NE(fault([](Graph& g) { g.inputs[0].type.strides.pop_back(); }), "");
  EXPECT_NE(fault([](Graph& g) { g.inputs[0].type.dtype = static_cast<DType>(77); }), "");
  EXPECT_NE(fault([](Graph& g) { g.scalars[1].kind = ScalarKind::kInt, g.scalars.resize(1); }), "");
  EXPECT_NE(fault([](Graph& g) { g.outputs[1].input = 1; }), "") << "a number's view";
  EXPECT_NE(fault([](Graph& g) { g.outputs[3].output = 2; }), "");
  EXPECT_NE(fault([](Graph& g) { g.outputs[4].output = 4; }), "");
  EXPECT_NE(fault([](Graph& g) { g.mutations.push_back(g.mutations[0]); }), "");
  EXPECT_NE(fault([](Graph& g) { g.num_hidden = 99; }), "");
  EXPECT_NE(fault([](Graph& g) { g.num_values = 1 << 30; }), "");
}

}  // namespace
}  // namespace torch_pjrt
