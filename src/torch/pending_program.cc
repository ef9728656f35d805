#include "torch/pending_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "torch/key_bytes.h"
#include "torch/outputs.h"
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

  void add_output(const Storage& storage) {
    const Value& value = storage.value();
    add_output(value);
    if (const auto origin = storage.origin()) {
      origins_.try_emplace({value.node.get(), value.index}, origin.get());
    }
  }

  Plan run() {
    if (roots_.empty()) return {};
    collect();
    collect_checks();
    make_key();
    std::unique_ptr<PendingProgram>& entry = programs()[key_];
    if (!entry) entry = make_program();
    plan_.program = entry.get();
    plan_.check->describe_by(describer());
    find_spent();
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

  // What the node of a problem in this program is. Programs are never given up.
  Check::Describe describer() {
    std::vector<std::pair<int32_t, std::shared_ptr<const std::string>>> lines;
    int32_t end = 0;  // in the program's graph, of a node's part
    for (const std::shared_ptr<Node>& node : nodes_) {
      end += static_cast<int32_t>(node->signature->graph.nodes.size());
      if (node->line) lines.emplace_back(end, node->line);
    }
    return [lines = std::move(lines), program = plan_.program](int32_t node) {
      std::string text = aten::describe_node(program->graph(), static_cast<size_t>(node));
      for (const auto& [end, line] : lines) {
        if (node < end) return text + ", recorded at " + *line;
      }
      return text;
    };
  }

  // Of each node: its own check, and those of what it reads.
  void collect_checks() {
    checks_.resize(nodes_.size());
    checks_of_operands_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Signature& signature = *nodes_[i]->signature;
      for (const Value& operand : nodes_[i]->operands) {
        if (!signature.reads_operands) break;
        add(checks_[i], operand.node->is_pending() ? checks_of(operand)
                                                   : operand.node->arrays[operand.index]->checks());
      }
      checks_of_operands_[i] = checks_[i];
      if (signature.checks_values) add(checks_[i], {plan_.check});
    }
  }

  const Checks& checks_of(const Value& value) const {
    const bool is_kept = value.node->signature->results[value.index].is_kept;
    return (is_kept ? checks_of_operands_ : checks_)[positions_.at(value.node.get())];
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
      const int32_t given_up = given_up_for({node, index});
      append(key_, positions_.at(node.get()));
      append(key_, index);
      append(key_, given_up);
      auto array = std::make_shared<Array>(
          type.type(), given_up < 0 ? order_of(type) : plan_.inputs[given_up]->order(),
          checks_of({node, index}));
      node->arrays[index] = array;
      plan_.outputs.push_back(std::move(array));
      outputs_.push_back({{node, index}, given_up});
    }
  }

  // The input whose memory the output may take: what its storage held before; -1: none.
  int32_t given_up_for(const Value& output) {
    const auto origin = origins_.find({output.node.get(), output.index});
    if (origin == origins_.end()) return -1;
    const auto found = input_index_.find(origin->second);
    if (found == input_index_.end()) return -1;
    const Type type = output.node->signature->results[output.index].type.type();
    if (plan_.inputs[found->second]->type() != type) return -1;
    plan_.spent.resize(plan_.inputs.size());
    if (plan_.spent[found->second]) return -1;
    plan_.spent[found->second] = true;
    return found->second;
  }

  // Leaves of the inputs that are given up those that nothing outside of the program holds.
  void find_spent() {
    if (std::ranges::find(plan_.spent, true) == plan_.spent.end()) return;
    std::unordered_map<const Node*, int64_t> reads;  // of the nodes that hold such inputs
    std::vector<int64_t> holders(plan_.inputs.size(), 1);
    std::vector<std::pair<const std::shared_ptr<Node>*, int32_t>> leaves;
    for (const std::shared_ptr<Node>& node : nodes_) {
      for (const Value& operand : node->operands) {
        if (operand.node->is_pending()) continue;
        const int32_t at = input_index_.at(operand.node->arrays[operand.index].get());
        if (!plan_.spent[at]) continue;
        if (++reads[operand.node.get()] > 1) continue;
        ++holders[at];
        leaves.emplace_back(&operand.node, at);
      }
    }
    for (const auto& [leaf, at] : leaves) {
      if (leaf->use_count() != reads.at(leaf->get())) plan_.spent[at] = false;
    }
    for (size_t i = 0; i < holders.size(); ++i) {
      if (plan_.inputs[i].use_count() != holders[i]) plan_.spent[i] = false;
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
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const auto& [value, given_up] = outputs_[k];
      const Geometry& type = value.node->signature->results[value.index].type;
      const Dims strides = dense_strides(type.type().dims, plan_.outputs[k]->order());
      Output out;
      out.kind = Output::Kind::kValue;
      out.value = results_[positions_.at(value.node.get())][value.index];
      out.input = given_up;
      out.type = type.sym_type();
      out.type.strides.assign(strides.begin(), strides.end());
      graph_.outputs.push_back(std::move(out));
    }
    return std::make_unique<PendingProgram>(std::move(graph_), std::move(signature),
                                            aten::matmul_precision(), aten::runtime(), plugin_);
  }

  struct ProgramOutput {
    Value value;
    int32_t given_up;  // input whose memory it may take; -1: none
  };

  const std::string& plugin_;
  std::vector<std::shared_ptr<Node>> roots_;
  std::map<std::pair<const Node*, int32_t>, const Array*> origins_;  // of outputs
  std::unordered_map<const Node*, std::vector<int32_t>> output_index_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::unordered_map<const Node*, int32_t> positions_;
  std::unordered_map<const Array*, int32_t> input_index_;
  std::vector<ProgramOutput> outputs_;
  std::vector<Checks> checks_;              // of each node
  std::vector<Checks> checks_of_operands_;  // of each node, without its own
  std::string key_;
  Plan plan_;
  Graph graph_;
  std::vector<std::vector<ValueId>> results_;  // of each node, in graph_
};

// All that storages hold of these groups, beside what was asked for.
Plan plan_groups(const std::set<const Group*>& groups, Planner planner) {
  if (groups.empty()) return {};
  Storage::for_each_pending([&](const Storage& s) {
    if (groups.contains(group_of(*s.value().node).get())) planner.add_output(s);
  });
  return planner.run();
}

}  // namespace

lower::Order order_of(const Geometry& type) {
  const Dims dims(type.dims.begin(), type.dims.end());
  return lower::dense_order(dims, Dims(type.strides.begin(), type.strides.end()))
      .value_or(lower::row_major(static_cast<int64_t>(dims.size())));
}

PendingProgram::PendingProgram(Graph graph, lower::Signature signature, lower::Precision precision,
                               compile::Runtime& runtime, const std::string& plugin)
    : program_(std::move(graph), runtime, {plugin, {}, true, true}),
      signature_(std::move(signature)),
      precision_(precision) {}

std::shared_ptr<compile::Compiled> PendingProgram::compiled(run::HostLock& lock) {
  {
    const std::lock_guard guard(mutex_);
    if (compiled_ && !compiled_->is_evicted) {
      program_.runtime().programs().touch(*compiled_);
      return compiled_;
    }
  }
  auto made = program_.compiled(signature_, precision_, lock);
  const std::lock_guard guard(mutex_);
  compiled_ = made;
  return made;
}

Plan plan(std::span<const Value> values, const std::string& plugin) {
  Planner planner(plugin);
  std::set<const Group*> groups;
  for (const Value& value : values) {
    if (!value.node->is_pending()) continue;
    groups.insert(group_of(*value.node).get());
    planner.add_output(value);
  }
  return plan_groups(groups, std::move(planner));
}

Plan plan_own(const std::string& plugin) {
  std::set<const Group*> groups;
  Storage::for_each_pending([&](const Storage& s) {
    Node& node = *s.value().node;
    if (node.thread == this_thread()) groups.insert(group_of(node).get());
  });
  return plan_groups(groups, Planner(plugin));
}

}  // namespace torch_pjrt::lazy
