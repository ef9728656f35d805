#include "torch/pending_program.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "torch/key_bytes.h"
#include "torch/runtime.h"
#include "torch/storage.h"

namespace torch_pjrt::lazy {
namespace {

auto& programs() {
  static auto& table = *new std::unordered_map<std::string, std::unique_ptr<PendingProgram>>;
  return table;
}

// One group's way into a program.
class Planner {
 public:
  explicit Planner(const std::string& plugin) : plugin_(plugin) {}

  void add_output(const Value& value) {
    const bool is_new = output_index_.try_emplace(value.node.get()).second;
    if (is_new) roots_.push_back(value.node);
    std::vector<int32_t>& indices = output_index_[value.node.get()];
    if (std::ranges::find(indices, value.index) == indices.end()) indices.push_back(value.index);
  }

  Plan run() {
    if (roots_.empty()) return {};
    collect();
    collect_checks();
    make_key();
    std::unique_ptr<PendingProgram>& entry = programs()[key_];
    if (!entry) entry = make_program();
    plan_.program = entry.get();
    for (const std::shared_ptr<Node>& node : nodes_) {
      node->group = nullptr;
      std::exchange(node->operands, {});
    }
    return std::move(plan_);
  }

 private:
  // All nodes that the outputs need, in the order of recording.
  void collect() {
    std::vector<std::shared_ptr<Node>> stack = roots_;
    while (!stack.empty()) {
      const std::shared_ptr<Node> node = std::move(stack.back());
      stack.pop_back();
      if (!positions_.try_emplace(node.get()).second) continue;
      nodes_.push_back(node);
      for (const Value& operand : node->operands) {
        if (operand.node->is_pending()) stack.push_back(operand.node);
      }
    }
    std::ranges::sort(nodes_, {}, [](const auto& node) { return node->sequence; });
    for (size_t i = 0; i < nodes_.size(); ++i) {
      positions_[nodes_[i].get()] = static_cast<int32_t>(i);
    }
  }

  // Of each node: its own check, and those of what it reads.
  void collect_checks() {
    checks_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Signature& signature = *nodes_[i]->signature;
      for (const Value& operand : nodes_[i]->operands) {
        if (!signature.reads_operands) break;
        add(checks_[i], operand.node->is_pending() ? checks_[positions_.at(operand.node.get())]
                                                   : operand.node->arrays[operand.index]->checks());
      }
      if (signature.checks_values) add(checks_[i], {plan_.check});
    }
  }

  int32_t input(const std::shared_ptr<Array>& array) {
    const auto size = static_cast<int32_t>(plan_.inputs.size());
    const auto [it, is_new] = input_index_.try_emplace(array.get(), size);
    if (is_new) plan_.inputs.push_back(array);
    return it->second;
  }

  void make_key() {
    append(key_, static_cast<int32_t>(aten::matmul_precision()));
    for (const std::shared_ptr<Node>& node : nodes_) {
      append(key_, node->signature->id);
      for (const Value& operand : node->operands) add_operand(operand);
      add_scalars(*node);
      plan_.draws.insert(plan_.draws.end(), node->draws.begin(), node->draws.end());
    }
    for (const std::shared_ptr<Node>& node : nodes_) add_outputs(node);
  }

  void add_operand(const Value& operand) {
    if (operand.node->is_pending()) {
      append(key_, positions_.at(operand.node.get()));
      append(key_, operand.index);
      return;
    }
    const std::shared_ptr<Array>& array = operand.node->arrays[operand.index];
    const size_t known = plan_.inputs.size();
    append(key_, -1 - input(array));
    if (known == plan_.inputs.size()) return;
    for (const int64_t d : array->order()) key_.push_back(static_cast<char>(d));
  }

  void add_scalars(const Node& node) {
    const Signature& signature = *node.signature;
    for (size_t k = 0; k < signature.graph.scalars.size(); ++k) {
      const int32_t number = signature.numbers[k];
      plan_.scalars.push_back(number < 0 ? signature.graph.scalars[k].number
                                         : node.numbers[number].number);
    }
  }

  void add_outputs(const std::shared_ptr<Node>& node) {
    const auto found = output_index_.find(node.get());
    if (found == output_index_.end()) return;
    std::ranges::sort(found->second);
    for (const int32_t index : found->second) {
      const Geometry& type = node->signature->results[index].type;
      append(key_, positions_.at(node.get()));
      append(key_, index);
      auto array =
          std::make_shared<Array>(type.type(), order_of(type), checks_[positions_.at(node.get())]);
      node->arrays[index] = array;
      plan_.outputs.push_back(std::move(array));
      outputs_.push_back({node, index});
    }
  }

  // --- the graph

  ValueId value_of(const Value& operand) {
    if (operand.node->is_pending()) {
      return results_[positions_.at(operand.node.get())].at(operand.index);
    }
    return graph_.inputs[input(operand.node->arrays[operand.index])].value;
  }

  void add_inputs(lower::Signature& signature) {
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const Array& array = *plan_.inputs[i];
      SymType type;
      type.dtype = array.type().dtype;
      type.dims.assign(array.type().dims.begin(), array.type().dims.end());
      const Dims strides = dense_strides(array.type().dims, array.order());
      type.strides.assign(strides.begin(), strides.end());
      graph_.add_tensor_input("tensor " + std::to_string(i), std::move(type));
      signature.input_orders.push_back(array.order());
    }
  }

  // Appends a copy of the signature's graph.
  void splice(const Node& node) {
    const Graph& part = node.signature->graph;
    std::vector<ValueId> values(part.num_values, -1);
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      values[part.inputs[i].value] = value_of(node.operands[i]);
    }
    for (const ValueId draw : part.draws) values[draw] = graph_.add_draw();
    const auto first_scalar = static_cast<int32_t>(graph_.scalars.size());
    graph_.scalars.insert(graph_.scalars.end(), part.scalars.begin(), part.scalars.end());
    for (const torch_pjrt::Node& n : part.nodes) {
      std::vector<NamedArg> args = n.args;
      for (NamedArg& a : args) renumber(a.arg, values, first_scalar);
      const ValueId first = graph_.add_node(n.op, std::move(args), n.results, n.source);
      for (size_t k = 0; k < n.results.size(); ++k) {
        values[n.first_result + k] = first + static_cast<ValueId>(k);
      }
    }
    std::vector<ValueId>& results = results_.emplace_back();
    for (const Signature::Result& r : node.signature->results) results.push_back(values[r.value]);
  }

  static void renumber(Arg& arg, const std::vector<ValueId>& values, int32_t first_scalar) {
    if (auto* ref = std::get_if<ValueRef>(&arg.v)) ref->id = values[ref->id];
    if (auto* slot = std::get_if<Slot>(&arg.v)) slot->index += first_scalar;
    if (auto* list = std::get_if<ArgList>(&arg.v)) {
      for (Arg& item : *list) renumber(item, values, first_scalar);
    }
  }

  std::unique_ptr<PendingProgram> make_program() {
    lower::Signature signature;
    add_inputs(signature);
    for (const std::shared_ptr<Node>& node : nodes_) splice(*node);
    for (const Value& output : outputs_) {
      const Geometry& type = output.node->signature->results[output.index].type;
      const Dims strides = dense_strides(type.type().dims, order_of(type));
      Output out;
      out.kind = Output::Kind::kValue;
      out.value = results_[positions_.at(output.node.get())][output.index];
      out.type = type.sym_type();
      out.type.strides.assign(strides.begin(), strides.end());
      graph_.outputs.push_back(std::move(out));
    }
    return std::make_unique<PendingProgram>(std::move(graph_), std::move(signature),
                                            aten::matmul_precision(), aten::runtime(), plugin_);
  }

  const std::string& plugin_;
  std::vector<std::shared_ptr<Node>> roots_;
  std::unordered_map<const Node*, std::vector<int32_t>> output_index_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::unordered_map<const Node*, int32_t> positions_;
  std::unordered_map<const Array*, int32_t> input_index_;
  std::vector<Value> outputs_;
  std::vector<Checks> checks_;  // of each node
  std::string key_;
  Plan plan_;
  Graph graph_;
  std::vector<std::vector<ValueId>> results_;  // of each node, in graph_
};

}  // namespace

lower::Order order_of(const Geometry& type) {
  const Dims dims(type.dims.begin(), type.dims.end());
  return lower::dense_order(dims, Dims(type.strides.begin(), type.strides.end()))
      .value_or(lower::row_major(static_cast<int64_t>(dims.size())));
}

PendingProgram::PendingProgram(Graph graph, lower::Signature signature, lower::Precision precision,
                               compile::Runtime& runtime, const std::string& plugin)
    : program(std::move(graph), runtime, {plugin, {}, true, true}),
      signature(std::move(signature)),
      precision(precision) {}

Plan plan(std::span<const Value> values, const std::string& plugin) {
  Planner planner(plugin);
  std::set<const Group*> groups;
  for (const Value& value : values) {
    if (!value.node->is_pending()) continue;
    groups.insert(group_of(*value.node).get());
    planner.add_output(value);
  }
  if (groups.empty()) return {};
  Storage::for_each_pending([&](const Value& held) {
    if (groups.contains(group_of(*held.node).get())) planner.add_output(held);
  });
  return planner.run();
}

Plan plan_all(const std::string& plugin) {
  Planner planner(plugin);
  Storage::for_each_pending([&](const Value& held) { planner.add_output(held); });
  return planner.run();
}

}  // namespace torch_pjrt::lazy
