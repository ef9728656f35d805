// Calls a program with so many inputs so many times, on the fake plugin; call_cost.py counts the
// instructions.
#include <ATen/ATen.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "compile/program.h"
#include "run/host_lock.h"
#include "torch/call.h"

namespace torch_pjrt {
namespace {

// The sum of all inputs, each f32[16,16].
Graph sum_graph(size_t inputs) {
  const SymType type{DType::kF32, {16, 16}, {16, 1}, 0};
  Graph g;
  for (size_t i = 0; i < inputs; ++i) g.add_tensor_input("x" + std::to_string(i), type);
  ValueId sum = g.inputs[0].value;
  const Slot one = g.add_scalar(Scalar::constant(ScalarKind::kInt, Number::of_int(1)));
  for (size_t i = 1; i < inputs; ++i) {
    const auto node = g.add_node(
        "aten::add.Tensor",
        {{"self", {ValueRef{sum}}}, {"other", {ValueRef{g.inputs[i].value}}}, {"alpha", {one}}},
        {type}, "");
    sum = g.nodes[node].first_result;
  }
  Output output;
  output.kind = Output::Kind::kValue;
  output.value = sum;
  output.type = type;
  g.outputs.push_back(output);
  return g;
}

void call_often(size_t inputs, int calls) {
  compile::Runtime& runtime = *std::make_unique<compile::Runtime>().release();
  compile::Program program(sum_graph(inputs), runtime, {FAKE_PLUGIN, {}});
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < inputs; ++i) tensors.push_back(at::ones({16, 16}));
  std::vector<aten::Argument> arguments;
  for (const at::Tensor& tensor : tensors) arguments.push_back({&tensor, 0});
  run::NoLock lock;
  for (int i = 0; i < calls; ++i) aten::call(program, arguments, lock);
  const run::Counts counts = runtime.stats().snapshot();
  if (counts.executions != calls || counts.compiles != 1 || counts.copied_inputs != 0) {
    fail(Code::kInternal, counts.executions, " executions, ", counts.compiles, " compiles, ",
         counts.copied_inputs, " copied inputs");
  }
}

}  // namespace
}  // namespace torch_pjrt

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: call_cost INPUTS CALLS\n";
    return 2;
  }
  torch_pjrt::call_often(std::stoul(argv[1]), std::stoi(argv[2]));
}
