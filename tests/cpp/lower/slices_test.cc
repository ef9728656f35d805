// Where slices start: a constant of the program, or one of its arguments.
#include "lower/slices.h"

#include <gtest/gtest.h>

#include "lower/lower.h"

namespace torch_pjrt::lower {
namespace {

// The program of x[at:at + 3] for an f32[8], or f32[2 * s0].
struct Case {
  Graph graph;
  ExprId symbol = graph.exprs.add_symbol("s0");

  Program lowered(bool has_symbolic_size, const Arg& at, int64_t value) {
    const ExprId twice = graph.exprs.add(ExprOp::kAdd, {symbol, symbol});
    const Size size = has_symbolic_size ? Size::symbolic(twice, 8) : Size(8);
    graph.add_tensor_input("x", {DType::kF32, {size}, {1}, 0});
    const SymType type{DType::kF32, {3}, {1}, 0};
    graph.add_node("aten::slice.Tensor",
                   {{"self", {ValueRef{0}}},
                    {"dim", {Size(0)}},
                    {"start", at},
                    {"end", {None()}},
                    {"step", {Size(1)}}},
                   {type}, "");
    graph.outputs.push_back({Output::Kind::kValue, 1, -1, type, {}, -1});
    return lower(graph, {{value}, {{0}}}, {});
  }
  Arg slot() { return {graph.add_scalar(Scalar::symbolic(ScalarKind::kInt, symbol))}; }
};

bool is_argument(const Program& program) {
  return program.arguments.size() > 1 &&
         program.arguments[1].kind == ProgramArgument::Kind::kScalar &&
         program.text.find("dynamic_slice") != std::string::npos;
}

TEST(SlicesTest, AKnownStartIsInTheText) {
  const Program program = Case().lowered(false, {Size(2)}, 0);
  EXPECT_FALSE(is_argument(program));
  EXPECT_NE(program.text.find("start_indices = array<i64: 2>"), std::string::npos);
}

TEST(SlicesTest, AValueIsAnArgument) {
  Case three;
  Case four;
  const Program program = three.lowered(false, three.slot(), 3);
  EXPECT_TRUE(is_argument(program));
  EXPECT_EQ(program.text, four.lowered(false, four.slot(), 4).text);
}

TEST(SlicesTest, AValueThatTheSizesDecideIsInTheText) {
  Case c;
  const Program program = c.lowered(true, c.slot(), 5);
  EXPECT_FALSE(is_argument(program));
  EXPECT_NE(program.text.find("start_indices = array<i64: 5>"), std::string::npos);
}

}  // namespace
}  // namespace torch_pjrt::lower
