#include "lower/lower.h"

#include <algorithm>

#include "base/error.h"
#include "lower/lowering.h"
#include "lower/rules.h"

namespace torch_pjrt::lower {
namespace {

std::string precision_name(Precision precision) {
  switch (precision) {
    case Precision::kDefault:
      return "DEFAULT";
    case Precision::kHigh:
      return "HIGH";
    case Precision::kHighest:
      break;
  }
  return "HIGHEST";
}

// The attribute of an argument whose memory becomes that of result `result`, if any.
std::string donation(int32_t result) {
  return result < 0 ? "" : str("{tf.aliasing_output = ", result, " : i32}");
}

}  // namespace

Lowering::Lowering(const Graph& graph, const Signature& signature, const Options& options)
    : graph_(graph),
      signature_(signature),
      options_(options),
      builder_(precision_name(options.precision)),
      values_(graph.num_values),
      input_of_value_(graph.num_values, -1),
      result_of_input_(graph.inputs.size(), -1),
      dtypes_(graph.num_values),
      ranks_(graph.num_values) {
  if (signature.input_orders.size() != graph.inputs.size()) {
    fail(Code::kInternal, "lower: ", signature.input_orders.size(), " input orders for ",
         graph.inputs.size(), " inputs");
  }
  const auto note = [this](ValueId id, const SymType& type) {
    dtypes_[id] = type.dtype;
    ranks_[id] = static_cast<int64_t>(type.dims.size());
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].kind != Input::Kind::kTensor) continue;
    input_of_value_[graph.inputs[i].value] = static_cast<int32_t>(i);
    note(graph.inputs[i].value, graph.inputs[i].type);
  }
  auto result =
      static_cast<int32_t>(std::ranges::count(graph.outputs, Output::Kind::kValue, &Output::kind));
  for (const Mutation& m : graph.mutations) result_of_input_[m.input] = result++;
  for (size_t i = 0; i < graph.draws.size(); ++i) {
    draw_of_value_[graph.draws[i]] = static_cast<int32_t>(i);
    note(graph.draws[i], {DType::kI64, {2}, {1}, 0});
  }
  for (const Node& node : graph.nodes) {
    for (size_t k = 0; k < node.results.size(); ++k)
      note(node.first_result + static_cast<ValueId>(k), node.results[k]);
  }
}

Type Lowering::concrete(const SymType& type) const {
  Type result{type.dtype, {}};
  for (const Size& s : type.dims) result.dims.push_back(evaluate(s));
  return result;
}

const Tensor& Lowering::value(ValueId id) {
  std::optional<Tensor>& value = values_[id];
  if (!value) value = argument(id);
  return *value;
}

Tensor Lowering::argument(ValueId id) {
  if (const auto draw = draw_of_value_.find(id); draw != draw_of_value_.end()) {
    const Type type{DType::kI64, {2}};
    program_.arguments.push_back({ProgramArgument::Kind::kDraw, draw->second, type});
    return {builder_.argument(type), row_major(1)};
  }
  const int32_t index = input_of_value_[id];
  if (index < 0) fail(Code::kInternal, "lower: the value %", id, " is read before it is computed");
  const Order& order = signature_.input_orders[index];
  Type type = concrete(graph_.inputs[index].type);
  type.dims = permute(type.dims, order);
  const int32_t result = options_.donate ? result_of_input_[index] : -1;
  const auto kind =
      result < 0 ? ProgramArgument::Kind::kInput : ProgramArgument::Kind::kMutatedInput;
  program_.arguments.push_back({kind, index, type, result});
  return {builder_.argument(type, donation(result)), order};
}

hlo::Value Lowering::scalar(Slot slot) {
  const auto [it, is_new] = scalars_.try_emplace(slot.index);
  if (is_new) {
    const Type type{dtype_of(graph_.scalars[slot.index].kind), {}};
    program_.arguments.push_back({ProgramArgument::Kind::kScalar, slot.index, type});
    it->second = builder_.argument(type);
  }
  return it->second;
}

void Lowering::lower_node(const Node& node) {
  const Entry* entry = find_rule(node.op);
  if (entry == nullptr) fail(Code::kUnsupported, node.op, " has no rule", at_source(node));
  const Call call(*this, node);
  Results results = entry->rule(call);
  if (results.size() != node.results.size()) {
    fail(Code::kInternal, node.op, ": the rule gives ", results.size(), " results for ",
         node.results.size());
  }
  for (size_t k = 0; k < results.size(); ++k) {
    const Type& wanted = call.result(k);
    Tensor& t = results[k];
    if (t.dtype() != wanted.dtype && t.dtype() == opmath(wanted.dtype)) {
      t.value = builder_.convert(t.value, wanted.dtype);  // the one rounding of f16 and bf16
    }
    const Type got{t.dtype(), t.dims()};
    if (got != wanted) {
      fail(Code::kInternal, node.op, ": the rule gives ", to_string(got), " where the graph says ",
           to_string(wanted));
    }
    values_[node.first_result + k] = std::move(t);
  }
}

void Lowering::add_output(int32_t index, const Output& output) {
  Tensor t = value(output.value);
  Dims dims = t.dims();
  Dims strides;
  for (const Size& s : output.type.strides) strides.push_back(evaluate(s));
  // An expanded output is stored once: its dims of stride 0 are computed as 1.
  Dims kept = dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (strides[d] == 0 && dims[d] > 1) kept[d] = 1;
  }
  if (kept != dims) {
    const Dims limit = permute(kept, t.order);
    t.value = builder_.slice(t.value, Dims(limit.size(), 0), limit, Dims(limit.size(), 1));
  }
  const Order order =
      dense_order(kept, strides).value_or(row_major(static_cast<int64_t>(kept.size())));
  add_result(ProgramResult::Kind::kOutput, index, t, order);
}

void Lowering::add_mutation(int32_t index, const Mutation& mutation) {
  const Tensor& t = value(mutation.value);
  const Input& input = graph_.inputs[mutation.input];
  const Type got{t.dtype(), t.dims()};
  if (const Type wanted = concrete(input.type); got != wanted) {
    fail(Code::kInternal, "lower: the new value of ", input.name, " is ", to_string(got), ", not ",
         to_string(wanted));
  }
  if (options_.donate) value(input.value);  // an argument although nothing may read it
  add_result(ProgramResult::Kind::kMutation, index, t, signature_.input_orders[mutation.input]);
}

void Lowering::add_result(ProgramResult::Kind kind, int32_t index, const Tensor& tensor,
                          const Order& order) {
  const Dims from = inverse(tensor.order);
  Dims permutation;
  for (const int64_t d : order) permutation.push_back(from[d]);
  const hlo::Value v = builder_.transpose(tensor.value, permutation);
  results_.push_back(v);
  program_.results.push_back({kind, index, v.type, order, tensor.dims()});
}

void Lowering::lower_outputs() {
  for (size_t k = 0; k < graph_.outputs.size(); ++k) {
    if (graph_.outputs[k].kind == Output::Kind::kValue)
      add_output(static_cast<int32_t>(k), graph_.outputs[k]);
  }
  for (size_t k = 0; k < graph_.mutations.size(); ++k) {
    add_mutation(static_cast<int32_t>(k), graph_.mutations[k]);
  }
  if (options_.donate) add_output_memory();
}

void Lowering::add_output_memory() {
  for (size_t r = 0; r < results_.size(); ++r) {
    if (program_.results[r].kind == ProgramResult::Kind::kMutation) continue;
    const Type& type = results_[r].type;
    const auto result = static_cast<int32_t>(r);
    program_.arguments.push_back({ProgramArgument::Kind::kOutputMemory, -1, type, result});
    builder_.argument(type, donation(result));
  }
}

Program Lowering::run() {
  for (const Node& node : graph_.nodes) lower_node(node);
  lower_outputs();
  program_.text = builder_.module(results_);
  return std::move(program_);
}

Program lower(const Graph& graph, const Signature& signature, const Options& options) {
  return Lowering(graph, signature, options).run();
}

}  // namespace torch_pjrt::lower
