// Graphs within nodes: printing, canonical bytes, symbols, and what they may read.
#include <gtest/gtest.h>

#include <functional>

#include "error_of.h"
#include "graph/graph.h"

namespace torch_pjrt {
namespace {

const SymType kVector{DType::kF32, {3}, {1}, 0};
const SymType kNumber{DType::kI64, {}, {}, 0};

// x, and a loop whose region doubles what is carried and adds x.
class RegionTest : public testing::Test {
 protected:
  RegionTest() {
    graph_.add_tensor_input("x", kVector);
    number_ = graph_.add_parameter(region_, kNumber);
    carried_ = graph_.add_parameter(region_, kVector);
    doubled_ = add(carried_, carried_);
    region_.results = {add(doubled_, 0)};
  }

  ValueId add(ValueId a, ValueId b) {
    return graph_.add_node("aten::add.Tensor", {{"self", {ValueRef{a}}}, {"other", {ValueRef{b}}}},
                           {kVector}, "", {}, &region_);
  }
  ValueId close() {
    loop_ = graph_.add_node("higher_order::scan", {{"init", {ArgList{{ValueRef{0}}}}}}, {kVector},
                            "a.py:1", {region_});
    return loop_;
  }
  std::string problem() {
    return error_of([&] { verify(graph_); });
  }

  Graph graph_;
  Region region_;
  ValueId number_ = 0;
  ValueId carried_ = 0;
  ValueId doubled_ = 0;
  ValueId loop_ = 0;
};

TEST_F(RegionTest, IsPrintedBelowItsNode) {
  close();
  EXPECT_EQ(print(graph_), R"(%0 = input x : f32[3] strides [1]
%5 = higher_order::scan(init=[%0]) : f32[3]  # a.py:1
  region(%1 : i64[], %2 : f32[3]):
    %3 = aten::add.Tensor(self=%2, other=%2) : f32[3]
    %4 = aten::add.Tensor(self=%3, other=%0) : f32[3]
    gives %4
return
)");
}

TEST_F(RegionTest, ReadsWhatIsKnownAtItsNode) {
  close();
  EXPECT_NO_THROW(verify(graph_));
}

TEST_F(RegionTest, KeepsItsValuesToItself) {
  close();
  graph_.add_node("aten::neg", {{"self", {ValueRef{doubled_}}}}, {kVector}, "");
  EXPECT_EQ(problem(),
            "internal: a graph isn't sound: aten::neg reads the value %3, which isn't known there");
}

TEST_F(RegionTest, ReadsNothingLater) {
  region_.results = {doubled_ + 2};
  close();
  EXPECT_EQ(problem(),
            "internal: a graph isn't sound: a region reads the value %5, which isn't known there");
}

TEST_F(RegionTest, OutputsAndMutationsReadNoneOfIt) {
  close();
  Output output;
  output.kind = Output::Kind::kValue;
  output.value = carried_;
  graph_.outputs = {output};
  EXPECT_EQ(problem(),
            "internal: a graph isn't sound: an output reads the value %2, which isn't known there");
  graph_.outputs.clear();
  graph_.add_mutation({0, doubled_});
  EXPECT_EQ(
      problem(),
      "internal: a graph isn't sound: a mutation reads the value %3, which isn't known there");
}

TEST_F(RegionTest, EverythingOfItIsInTheCanonicalBytes) {
  const auto bytes = [&](const std::function<void(Region&)>& change) {
    Graph graph = graph_;
    Region region = region_;
    change(region);
    graph.add_node("higher_order::scan", {}, {kVector}, "", {region});
    return canonical_bytes(graph);
  };
  const std::string same = bytes([](Region&) {});
  EXPECT_EQ(bytes([](Region& r) { r.nodes[0].source = "b.py:2"; }), same);
  EXPECT_NE(bytes([](Region& r) { r.nodes[0].op = "aten::mul.Tensor"; }), same);
  EXPECT_NE(bytes([](Region& r) { r.nodes[1].args[1].arg.v = ValueRef{2}; }), same);
  EXPECT_NE(bytes([](Region& r) { r.nodes.pop_back(); }), same);
  EXPECT_NE(bytes([](Region& r) { r.results[0] = 3; }), same);
  EXPECT_NE(bytes([](Region& r) { r.parameters[1].type.dims[0] = 4; }), same);
  EXPECT_NE(bytes([](Region& r) { std::swap(r.parameters[0].value, r.parameters[1].value); }),
            same);
}

TEST_F(RegionTest, ItsSymbolsAreStructural) {
  const Size rows = Size::symbolic(graph_.exprs.add_symbol("s0"), 4);
  EXPECT_EQ(structural_symbols(graph_), std::vector<bool>{false});
  graph_.add_node("aten::empty", {}, {{DType::kF32, {rows}, {1}, 0}}, "", {}, &region_);
  close();
  EXPECT_EQ(structural_symbols(graph_), std::vector<bool>{true});
}

}  // namespace
}  // namespace torch_pjrt
