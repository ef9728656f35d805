// Calls a program with so many inputs so many times, on the fake plugin; call_cost.py counts the
// instructions. With SHAPES, the graph has a symbolic size, of which so many values are known, and
// the calls take turns in them.
#include <ATen/ATen.h>

#include <algorithm>
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

// The sum of all inputs, each f32[rows,16]. Where the rows are symbolic, they come as an int first,
// as from Dynamo.
Graph sum_graph(size_t inputs, bool is_dynamic) {
  Graph g;
  Size rows = 16;
  if (is_dynamic) {
    rows = Size::symbolic(g.exprs.add_symbol("s0"), 16);
    g.add_number_input("s0", rows);
  }
  const SymType type{DType::kF32, {rows, 16}, {16, 1}, 0};
  std::vector<ValueId> values;
  for (size_t i = 0; i < inputs; ++i) {
    values.push_back(g.inputs[g.add_tensor_input("x" + std::to_string(i), type)].value);
  }
  ValueId sum = values[0];
  const Slot one = g.add_scalar(Scalar::constant(ScalarKind::kInt, Number::of_int(1)));
  for (size_t i = 1; i < inputs; ++i) {
    sum =
        g.add_node("aten::add.Tensor",
                   {{"self", {ValueRef{sum}}}, {"other", {ValueRef{values[i]}}}, {"alpha", {one}}},
                   {type}, "");
  }
  Output output;
  output.kind = Output::Kind::kValue;
  output.value = sum;
  output.type = type;
  g.outputs.push_back(output);
  return g;
}

// The arguments of a call: one tensor for all inputs. They lie where they were made.
struct Arguments {
  Arguments(size_t inputs, int64_t rows, bool is_dynamic) : tensor(at::ones({rows, 16})) {
    if (is_dynamic) arguments.push_back({nullptr, rows});
    arguments.resize(arguments.size() + inputs, {&tensor, 0});
  }
  at::Tensor tensor;
  std::vector<aten::Argument> arguments;
};

// Where call_cost.py begins to count.
[[gnu::noinline]] void begin_to_count() { asm volatile(""); }

void call_often(size_t inputs, int calls, int shapes) {
  const bool is_dynamic = shapes > 0;
  compile::Runtime& runtime = *std::make_unique<compile::Runtime>().release();
  // Never destroyed: the plugin's part of that would be counted.
  compile::Program& program =
      *std::make_unique<compile::Program>(sum_graph(inputs, is_dynamic), runtime,
                                          compile::Options{FAKE_PLUGIN, {}})
           .release();
  std::vector<std::unique_ptr<Arguments>> known;
  for (int s = 0; s < std::max(shapes, 1); ++s) {
    known.push_back(std::make_unique<Arguments>(inputs, 16 + s, is_dynamic));
  }
  run::NoLock lock;
  for (const auto& arguments : known) aten::call(program, arguments->arguments, lock);
  begin_to_count();
  for (int i = 0; i < calls; ++i) {
    aten::call(program, known[static_cast<size_t>(i) % known.size()]->arguments, lock);
  }
  const run::Counts counts = runtime.stats().snapshot();
  if (counts.memory_hits != calls || counts.compiles != std::ssize(known) ||
      counts.copied_inputs != 0) {
    fail(Code::kInternal, counts.memory_hits, " calls of known shapes, ", counts.compiles,
         " compiles, ", counts.copied_inputs, " copied inputs");
  }
}

}  // namespace
}  // namespace torch_pjrt

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: call_cost INPUTS CALLS SHAPES\n";
    return 2;
  }
  torch_pjrt::call_often(std::stoul(argv[1]), std::stoi(argv[2]), std::stoi(argv[3]));
}
