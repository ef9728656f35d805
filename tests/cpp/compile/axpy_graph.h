// The graph that tests of programs run: x + alpha * y.
#pragma once

#include "graph/graph.h"

namespace torch_pjrt::compile {

// Of two f32[rows,16]; the symbol of `rows`, if it is one, is in `g`.
inline Graph axpy_graph(const Size& rows, const Scalar& alpha, Graph g = {}) {
  const SymType type{DType::kF32, {rows, 16}, {16, 1}, 0};
  g.add_tensor_input("x", type);
  g.add_tensor_input("y", type);
  const Slot slot = g.add_scalar(alpha);
  g.add_node("aten::add.Tensor",
             {{"self", {ValueRef{0}}}, {"other", {ValueRef{1}}}, {"alpha", {slot}}}, {type}, "");
  Output output;
  output.kind = Output::Kind::kValue;
  output.value = 2;
  output.type = type;
  g.outputs.push_back(output);
  return g;
}

}  // namespace torch_pjrt::compile
