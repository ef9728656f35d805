#include "torch/outputs.h"

#include <ATen/ops/_linalg_check_errors_native.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "compile/binding.h"

namespace torch_pjrt::aten {
namespace {

class Outputs {
 public:
  Outputs(const Graph& graph, std::span<const int64_t> symbols, std::span<const Argument> arguments)
      : graph_(graph), symbols_(symbols), given_(arguments) {}

  void add(std::vector<Result>& outputs) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Output& output = graph_.outputs[i];
      if (output.kind == Output::Kind::kInput) outputs[i] = input(output.input);
      if (output.kind == Output::Kind::kView) outputs[i] = view_of_input(output);
      if (output.kind == Output::Kind::kPart) outputs[i] = part(output, outputs);
      if (output.kind == Output::Kind::kSame) outputs[i] = outputs[output.output];
      if (output.kind == Output::Kind::kNumber) outputs[i] = number(output.number);
    }
    outputs.resize(outputs.size() - graph_.num_hidden);
  }

 private:
  // The view lies where it did at capture, seen from the first element of `base`.
  at::Tensor view(const Output& output, const at::Tensor& base, const SymType& base_type) const {
    const int64_t offset = graph_.exprs.evaluate(output.type.offset, symbols_) -
                           graph_.exprs.evaluate(base_type.offset, symbols_);
    return base.as_strided(compile::evaluate(graph_.exprs, output.type.dims, symbols_),
                           compile::evaluate(graph_.exprs, output.type.strides, symbols_),
                           base.storage_offset() + offset);
  }

  at::Tensor view_of_input(const Output& output) const {
    return view(output, *given_[output.input].tensor, graph_.inputs[output.input].type);
  }

  at::Tensor part(const Output& output, const std::vector<Result>& outputs) const {
    return view(output, std::get<at::Tensor>(outputs[output.output]),
                graph_.outputs[output.output].type);
  }

  Result number(const Scalar& scalar) const {
    const Number value = number_of(scalar, graph_.exprs, symbols_);
    if (scalar.kind == ScalarKind::kBool) return value.as_float() != 0;
    if (scalar.kind == ScalarKind::kFloat) return value.as_float();
    return value.i;
  }

  Result input(int32_t i) const {
    if (given_[i].tensor) return *given_[i].tensor;
    return given_[i].number;
  }

  const Graph& graph_;
  std::span<const int64_t> symbols_;
  std::span<const Argument> given_;
};

// Has eager's own check look at what the factorisation gave.
void raise_factor_error(const std::string& api, int64_t value) {
  const int64_t matrix = value >> 32;  // from 1, or 0 for the only one
  const at::Tensor info = at::zeros({std::max<int64_t>(matrix, 1)}, at::kInt);
  info[-1] = static_cast<int32_t>(value);
  at::native::_linalg_check_errors(matrix == 0 ? info[0] : info, api, matrix == 0);
}

// Null for a value of a region's.
const SymType* type_of(const Graph& graph, ValueId id) {
  for (const Input& input : graph.inputs) {
    if (input.kind == Input::Kind::kTensor && input.value == id) return &input.type;
  }
  for (const Node& node : graph.nodes) {
    const ValueId place = id - node.first_result;
    if (place >= 0 && place < std::ssize(node.results)) return &node.results[place];
  }
  return nullptr;
}

std::string print(const Exprs& exprs, const SymType& type) {
  std::string dims;
  for (const Size& s : type.dims) {
    dims += (dims.empty() ? "" : ",") +
            (s.is_symbolic() ? exprs.print(s.expr) : std::to_string(s.value));
  }
  return str(name(type.dtype), "[", dims, "]");
}

}  // namespace

std::vector<Result> add_outputs(const Graph& graph, std::span<const int64_t> symbols,
                                std::span<const Argument> arguments, std::vector<Result> computed) {
  Outputs(graph, symbols, arguments).add(computed);
  return computed;
}

std::string describe_input(const Graph& graph, size_t index) {
  if (index >= graph.inputs.size()) return str("input ", index);
  return str("input ", index, " (", graph.inputs[index].name, ")");
}

Number number_of(const Scalar& scalar, const Exprs& exprs, std::span<const int64_t> symbols) {
  return scalar.expr < 0 ? scalar.number : exprs.evaluate(scalar.expr, symbols);
}

std::string describe_node(const Graph& graph, size_t node) {
  const Node& found = graph.nodes.at(node);
  std::string types;
  const std::function<void(const Arg&)> add = [&](const Arg& arg) {
    const auto* ref = std::get_if<ValueRef>(&arg.v);
    const SymType* type = ref ? type_of(graph, ref->id) : nullptr;
    if (type) types += (types.empty() ? "" : ", ") + print(graph.exprs, *type);
    const auto* list = std::get_if<ArgList>(&arg.v);
    if (list) std::ranges::for_each(*list, add);
  };
  for (const NamedArg& a : found.args) add(a.arg);
  return str(found.op, "(", types, ")", found.source.empty() ? "" : " at ", found.source);
}

void raise_problem(const lower::Problem& problem, int64_t value, const std::string& where) {
  if (problem.kind == lower::Problem::Kind::kFactorError)
    raise_factor_error(problem.message, value);
  std::string message = problem.message;
  if (const size_t place = message.find("{}"); place != std::string::npos) {
    message.replace(place, 2, std::to_string(value));
  }
  if (!where.empty()) message += "\n  in " + where;
  TORCH_CHECK_INDEX(problem.kind != lower::Problem::Kind::kIndexError, message);
  TORCH_CHECK(false, message);
}

}  // namespace torch_pjrt::aten
