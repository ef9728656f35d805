#include "graph/graph.h"

#include <utility>

#include "base/error.h"

namespace torch_pjrt {
namespace {

ScalarClass classify(const Number& n) {
  const double v = n.as_float();
  // -0.0 is no zero here: x + -0.0 and x + 0.0 differ.
  if (v == 0)
    return n.is_float && __builtin_signbit(n.f) ? ScalarClass::kOther : ScalarClass::kZero;
  if (v == 1) return ScalarClass::kOne;
  if (v == -1) return ScalarClass::kMinusOne;
  return ScalarClass::kOther;
}

void check_values(const Graph& graph, const std::string& op, const Arg& arg) {
  if (const auto* ref = std::get_if<ValueRef>(&arg.v)) {
    if (ref->id < 0 || ref->id >= graph.num_values) {
      fail(Code::kInternal, op, " reads the value %", ref->id, ", which doesn't exist");
    }
  } else if (const auto* slot = std::get_if<Slot>(&arg.v)) {
    if (slot->index < 0 || slot->index >= static_cast<int32_t>(graph.scalars.size())) {
      fail(Code::kInternal, op, " reads the scalar $", slot->index, ", which doesn't exist");
    }
  } else if (const auto* list = std::get_if<ArgList>(&arg.v)) {
    for (const Arg& a : *list) check_values(graph, op, a);
  }
}

void mark(const Graph& graph, const Size& size, std::vector<bool>& used) {
  if (size.is_symbolic()) graph.exprs.mark_symbols(size.expr, used);
}

void mark(const Graph& graph, const std::vector<Size>& sizes, std::vector<bool>& used) {
  for (const Size& s : sizes) mark(graph, s, used);
}

void mark(const Graph& graph, const Arg& arg, std::vector<bool>& used);

void mark(const Graph& graph, const std::vector<Node>& nodes, std::vector<bool>& used) {
  for (const Node& node : nodes) {
    for (const NamedArg& a : node.args) mark(graph, a.arg, used);
    for (const SymType& t : node.results) mark(graph, t.dims, used);
    for (const Region& region : node.regions) {
      for (const Region::Parameter& p : region.parameters) mark(graph, p.type.dims, used);
      mark(graph, region.nodes, used);
    }
  }
}

void mark(const Graph& graph, const Arg& arg, std::vector<bool>& used) {
  if (const auto* size = std::get_if<Size>(&arg.v)) {
    mark(graph, *size, used);
  } else if (const auto* list = std::get_if<ArgList>(&arg.v)) {
    for (const Arg& a : *list) mark(graph, a, used);
  }
}

}  // namespace

DType dtype_of(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::kBool:
      return DType::kBool;
    case ScalarKind::kInt:
      return DType::kI64;
    case ScalarKind::kComplex:
      return DType::kC128;
    case ScalarKind::kFloat:
      break;
  }
  return DType::kF64;
}

Scalar Scalar::constant(ScalarKind kind, const Number& number) {
  return {kind, classify(number), number, -1};
}

int32_t Graph::add_tensor_input(std::string name, SymType type) {
  Input input;
  input.name = std::move(name);
  input.type = std::move(type);
  input.value = num_values++;
  inputs.push_back(std::move(input));
  return static_cast<int32_t>(inputs.size() - 1);
}

int32_t Graph::add_number_input(std::string name, Size number) {
  Input input;
  input.kind = Input::Kind::kNumber;
  input.name = std::move(name);
  input.number = number;
  inputs.push_back(std::move(input));
  return static_cast<int32_t>(inputs.size() - 1);
}

ValueId Graph::add_draw() {
  draws.push_back(num_values++);
  return draws.back();
}

ValueId Graph::add_node(std::string op, std::vector<NamedArg> args, std::vector<SymType> results,
                        std::string source, std::vector<Region> regions, Region* into) {
  for (const NamedArg& a : args) check_values(*this, op, a.arg);
  Node node{std::move(op),      std::move(args),   num_values,
            std::move(results), std::move(source), std::move(regions)};
  num_values += static_cast<int32_t>(node.results.size());
  std::vector<Node>& list = into == nullptr ? nodes : into->nodes;
  list.push_back(std::move(node));
  return list.back().first_result;
}

ValueId Graph::add_parameter(Region& region, SymType type) {
  region.parameters.push_back({num_values++, std::move(type)});
  return region.parameters.back().value;
}

Slot Graph::add_scalar(Scalar scalar) {
  scalars.push_back(scalar);
  return {static_cast<int32_t>(scalars.size() - 1)};
}

void Graph::add_mutation(Mutation mutation) {
  const bool has_input =
      mutation.input >= 0 && mutation.input < static_cast<int32_t>(inputs.size());
  if (!has_input || inputs[mutation.input].kind != Input::Kind::kTensor) {
    fail(Code::kInternal, "a mutation of input ", mutation.input, ", which is no tensor input");
  }
  check_values(*this, "a mutation", {ValueRef{mutation.value}});
  std::erase_if(mutations, [&](const Mutation& m) { return m.input == mutation.input; });
  mutations.push_back(mutation);
}

Slot Graph::add_complex(double real, double imag) {
  Scalar first = Scalar::constant(ScalarKind::kComplex, Number::of_float(real));
  Scalar second = Scalar::constant(ScalarKind::kFloat, Number::of_float(imag));
  // Both together are of a class, which the first one tells.
  if (second.scalar_class != ScalarClass::kZero) first.scalar_class = ScalarClass::kOther;
  second.scalar_class = ScalarClass::kOther;
  const Slot slot = add_scalar(first);
  add_scalar(second);
  return slot;
}

std::vector<bool> structural_symbols(const Graph& graph) {
  std::vector<bool> used(graph.exprs.symbols().size());
  for (const Input& input : graph.inputs) mark(graph, input.type.dims, used);
  mark(graph, graph.nodes, used);
  for (const Output& output : graph.outputs) {
    if (output.kind != Output::Kind::kValue) continue;
    mark(graph, output.type.dims, used);
    mark(graph, output.type.strides, used);
  }
  return used;
}

}  // namespace torch_pjrt
