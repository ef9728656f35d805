#include "lower/lower.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "lower/lowering.h"
#include "lower/rules.h"

namespace torch_pjrt::lower {
namespace {

const Type kDrawType{DType::kI64, {2}};

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

void for_each_value(const Arg& arg, const std::function<void(ValueId)>& f) {
  if (const auto* ref = std::get_if<ValueRef>(&arg.v)) f(ref->id);
  if (const auto* list = std::get_if<ArgList>(&arg.v)) {
    for (const Arg& a : *list) for_each_value(a, f);
  }
}

std::optional<ValueId> first_tensor(const Node& node) {
  const auto* ref = node.args.empty() ? nullptr : std::get_if<ValueRef>(&node.args[0].arg.v);
  return ref != nullptr ? std::optional(ref->id) : std::nullopt;
}

// Ops whose result has no elements but those of their first argument.
constexpr std::string_view kRearranging[] = {
    "aten::clone",      "aten::expand",        "aten::permute",     "aten::reshape",
    "aten::select.int", "aten::slice.Tensor",  "aten::squeeze.dim", "aten::squeeze.dims",
    "aten::t",          "aten::transpose.int", "aten::unsqueeze",   "aten::view",
};

// Whether an argument is the number of that class in every call, or isn't there.
bool is_always(const Graph& graph, const Node& node, std::string_view argument, ScalarClass c) {
  for (const NamedArg& a : node.args) {
    if (a.name != argument) continue;
    const auto* slot = std::get_if<Slot>(&a.arg.v);
    if (slot == nullptr || graph.scalars[slot->index].expr >= 0) return false;
    return graph.scalars[slot->index].scalar_class == c;
  }
  return true;
}

// A rule that knows no way around what its types can't do finds out in the builder.
Results apply(const Entry& entry, const Call& call, const Node& node) {
  try {
    return entry.rule(call);
  } catch (const Error& e) {
    if (e.code() != Code::kUnsupported || std::string_view(e.what()).starts_with(node.op)) throw;
    refuse(node, e.what(), kRewrite);
  }
}

}  // namespace

Lowering::Lowering(const Graph& graph, const Signature& signature, const Options& options)
    : graph_(graph),
      signature_(signature),
      options_(options),
      builder_(precision_name(options.precision)),
      values_(graph.num_values),
      input_of_value_(graph.num_values, -1),
      node_of_value_(graph.num_values, -1),
      depth_of_value_(graph.num_values),
      used_(graph.num_values),
      structural_(structural_symbols(graph)),
      result_of_input_(graph.inputs.size(), -1),
      is_mutated_(graph.inputs.size()),
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
  int32_t result = 0;
  for (const Output& o : graph.outputs) {
    if (o.kind != Output::Kind::kValue) continue;
    if (o.input >= 0) result_of_input_[o.input] = result;
    ++result;
  }
  for (const Mutation& m : graph.mutations) {
    result_of_input_[m.input] = result++;
    is_mutated_[m.input] = true;
  }
  for (size_t i = 0; i < graph.draws.size(); ++i) {
    draw_of_value_[graph.draws[i]] = static_cast<int32_t>(i);
    note(graph.draws[i], {DType::kI64, {2}, {1}, 0});
  }
  enter(graph.nodes, 0);
  lowered_.resize(nodes_.size());
  for (const Output& o : graph.outputs) {
    if (o.kind == Output::Kind::kValue) used_[o.value] = true;
  }
  for (const Mutation& m : graph.mutations) used_[m.value] = true;
}

void Lowering::enter(const std::vector<Node>& nodes, int depth) {
  const auto note = [&](ValueId id, const SymType& type, int at) {
    dtypes_[id] = type.dtype;
    ranks_[id] = static_cast<int64_t>(type.dims.size());
    depth_of_value_[id] = at;
  };
  for (const Node& node : nodes) {
    const auto index = static_cast<int32_t>(nodes_.size());
    index_of_node_[&node] = nodes_.size();
    nodes_.push_back(&node);
    depth_of_node_.push_back(depth);
    for (size_t k = 0; k < node.results.size(); ++k) {
      const auto id = node.first_result + static_cast<ValueId>(k);
      note(id, node.results[k], depth);
      node_of_value_[id] = index;
    }
    for (const NamedArg& a : node.args)
      for_each_value(a.arg, [this](ValueId id) { used_[id] = true; });
    for (const Region& region : node.regions) {
      for (const ValueId id : region.results) used_[id] = true;
      for (const Region::Parameter& p : region.parameters) {
        note(p.value, p.type, depth + 1);
        parameters_[p.value] = &p.type;
      }
      enter(region.nodes, depth + 1);
    }
  }
}

void Lowering::for_each_read(const Node& node, const std::function<void(ValueId)>& f) const {
  const int depth = depth_of_node_[index_of_node_.at(&node)];
  // What a region knows lies deeper than its node, unless it is known outside, too.
  const std::function<void(ValueId)> outer = [&](ValueId id) {
    if (depth_of_value_[id] <= depth) f(id);
  };
  for (const NamedArg& a : node.args) for_each_value(a.arg, outer);
  for (const Region& region : node.regions) {
    for (const Node& inner : region.nodes) for_each_read(inner, outer);
    for (const ValueId id : region.results) outer(id);
  }
}

// What `f` gives; where it finds a node unsupported, that is the node of the graph that holds it.
template <class F>
auto Lowering::refusing(const Node& node, const F& f) const {
  try {
    return f();
  } catch (const Error& e) {
    const bool is_inner = depth_of_node_[index_of_node_.at(&node)] > 0;
    if (e.code() != Code::kUnsupported || is_inner) throw;
    throw Refusal(static_cast<size_t>(&node - graph_.nodes.data()), e.what());
  }
}

Type Lowering::concrete(const SymType& type) const {
  Type result{type.dtype, {}};
  for (const Size& s : type.dims) result.dims.push_back(evaluate(s));
  return result;
}

Type Lowering::type(ValueId id) const {
  const int32_t n = node_of_value_[id];
  if (draw_of_value_.contains(id)) return kDrawType;
  if (const auto p = parameters_.find(id); p != parameters_.end()) return concrete(*p->second);
  if (n < 0) return concrete(graph_.inputs[input_of_value_[id]].type);
  const Node& node = *nodes_[n];
  return concrete(node.results[id - node.first_result]);
}

const Tensor& Lowering::value(ValueId id) {
  std::optional<Tensor>& value = values_[id];
  if (!value && node_of_value_[id] >= 0) {
    lower_with_arguments(static_cast<size_t>(node_of_value_[id]));
  } else if (!value) {
    value = argument(id);
  }
  return *value;
}

Tensor Lowering::argument(ValueId id) {
  if (const auto draw = draw_of_value_.find(id); draw != draw_of_value_.end()) {
    program_.arguments.push_back({ProgramArgument::Kind::kDraw, draw->second, kDrawType});
    return {builder_.argument(kDrawType), row_major(1)};
  }
  const int32_t index = input_of_value_[id];
  const Order& order = signature_.input_orders[index];
  Type type = concrete(graph_.inputs[index].type);
  type.dims = permute(type.dims, order);
  const int32_t result = donates() ? result_of_input_[index] : -1;
  const auto kind =
      result < 0 ? ProgramArgument::Kind::kInput : ProgramArgument::Kind::kMutatedInput;
  program_.arguments.push_back({kind, index, type, result});
  const Tensor t{builder_.argument(type, donation(result)), order};
  if (is_mutated_[index]) kept_[t.value.id] = index;
  return t;
}

const hlo::Value& Lowering::scalar_argument(int32_t index, DType dtype) {
  const auto [it, is_new] = scalars_.try_emplace(index);
  if (is_new) {
    const Type type{dtype, {}};
    program_.arguments.push_back({ProgramArgument::Kind::kScalar, index, type});
    it->second = builder_.argument(type);
  }
  return it->second;
}

hlo::Value Lowering::scalar(Slot slot) {
  const DType dtype = dtype_of(graph_.scalars[slot.index].kind);
  hlo::Value value = scalar_argument(slot.index, part(dtype));
  if (!is_complex(dtype)) return value;
  return builder_.elementwise(Op::kComplex, {value, scalar_argument(slot.index + 1, part(dtype))});
}

std::optional<int64_t> Lowering::known_integer(Slot slot) const {
  const Scalar& scalar = graph_.scalars[slot.index];
  if (scalar.expr < 0) return scalar.number.i;
  std::vector<bool> used(structural_.size());
  graph_.exprs.mark_symbols(scalar.expr, used);
  for (size_t s = 0; s < used.size(); ++s) {
    if (used[s] && !structural_[s]) return std::nullopt;
  }
  return evaluate(Size::symbolic(scalar.expr, 0));
}

bool Lowering::is_of_complex(const Arg& arg) const {
  if (const auto* ref = std::get_if<ValueRef>(&arg.v)) return is_complex(dtypes_[ref->id]);
  if (const auto* slot = std::get_if<Slot>(&arg.v))
    return graph_.scalars[slot->index].kind == ScalarKind::kComplex;
  const auto* list = std::get_if<ArgList>(&arg.v);
  return list != nullptr &&
         std::ranges::any_of(*list, [this](const Arg& item) { return is_of_complex(item); });
}

bool Lowering::is_of_complex(const Node& node) const {
  return std::ranges::any_of(node.results, [](const SymType& t) { return is_complex(t.dtype); }) ||
         std::ranges::any_of(node.args, [this](const NamedArg& a) { return is_of_complex(a.arg); });
}

void Lowering::lower_with_arguments(size_t index) {
  std::vector<bool> needed(index + 1);
  needed[index] = true;
  for (size_t n = index + 1; n-- > 0;) {
    if (!needed[n] || lowered_[n]) continue;
    for_each_read(*nodes_[n], [&](ValueId id) {
      if (node_of_value_[id] >= 0) needed[node_of_value_[id]] = true;
    });
  }
  for (size_t n = 0; n <= index; ++n) {
    if (needed[n]) lower_node(n);
  }
}

bool Lowering::has_checks(const Region& region) const {
  return std::ranges::any_of(region.nodes, [this](const Node& node) {
    const Entry* entry = find_rule(node.op);
    return (entry != nullptr && entry->check != nullptr) ||
           std::ranges::any_of(node.regions, [this](const Region& r) { return has_checks(r); });
  });
}

// The first problem counts. Those of regions are found when their node is lowered.
std::optional<Status> Lowering::check_all(const std::vector<Node>& nodes) {
  struct Found {
    hlo::Value bad;
    std::optional<hlo::Value> problem;  // none: the number
    int64_t number;
    hlo::Value value;
  };
  std::vector<Found> found;
  const Type type{DType::kI64, {}};
  for (const Node& node : nodes) {
    if (std::ranges::any_of(node.regions, [this](const Region& r) { return has_checks(r); })) {
      lower_with_arguments(index_of_node_.at(&node));
      const auto status = statuses_.find(&node);
      if (status == statuses_.end()) continue;
      const hlo::Value& problem = status->second.problem;
      found.push_back({builder_.compare(hlo::Direction::kNe, problem, builder_.constant(0, type)),
                       problem, 0, status->second.value});
    }
    const Entry* entry = find_rule(node.op);
    if (entry == nullptr || entry->check == nullptr) continue;
    for (Failure& f : refusing(node, [&] { return entry->check(Call(*this, node)); })) {
      const bool is_inner = depth_of_node_[index_of_node_.at(&node)] > 0;
      bad_[&node].push_back(f.bad.value);
      f.problem.node = is_inner ? -1 : static_cast<int32_t>(&node - graph_.nodes.data());
      program_.problems.push_back(std::move(f.problem));
      found.push_back({f.bad.value, std::nullopt, static_cast<int64_t>(program_.problems.size()),
                       f.value.value});
    }
  }
  if (found.empty()) return std::nullopt;
  Status status{builder_.constant(0, type), {}};
  status.value = status.problem;
  for (size_t k = found.size(); k-- > 0;) {
    const Found& f = found[k];
    const hlo::Value number = f.problem ? *f.problem : builder_.constant(f.number, type);
    status.problem = builder_.elementwise(Op::kSelect, {f.bad, number, status.problem});
    status.value = builder_.elementwise(Op::kSelect, {f.bad, f.value, status.value});
  }
  return status;
}

void Lowering::lower_checks() {
  const std::optional<Status> status = check_all(graph_.nodes);
  if (!status) return;
  const Type type{DType::kI64, {}};
  ok_ = builder_.compare(hlo::Direction::kEq, status->problem, builder_.constant(0, type));
  const std::vector<hlo::Value> parts = {builder_.reshape(status->problem, {1}),
                                         builder_.reshape(status->value, {1})};
  status_ = builder_.concatenate(parts, 0);
}

RegionResults Lowering::lower_region(const Region& region, std::span<const Tensor> arguments) {
  if (arguments.size() != region.parameters.size()) {
    fail(Code::kInternal, "a region takes ", region.parameters.size(), " arguments, got ",
         arguments.size());
  }
  for (size_t k = 0; k < arguments.size(); ++k) {
    values_[region.parameters[k].value] = arguments[k];
  }
  RegionResults results;
  results.status = check_all(region.nodes);
  for (const Node& node : region.nodes) lower_node(index_of_node_.at(&node));
  for (const ValueId id : region.results) results.values.push_back(value(id));
  return results;
}

std::optional<int64_t> Lowering::known_limit(ValueId id) const {
  for (int32_t n = node_of_value_[id]; n >= 0; n = node_of_value_[id]) {
    const Node& node = *nodes_[n];
    if (node.op == "aten::arange" || node.op == "aten::arange.start_step") {
      const bool counts = is_always(graph_, node, "start", ScalarClass::kZero) &&
                          is_always(graph_, node, "step", ScalarClass::kOne);
      const Type type = concrete(node.results[0]);
      const bool is_wide = type.dtype == DType::kI32 || type.dtype == DType::kI64;
      return counts && is_wide ? std::optional(type.dims[0]) : std::nullopt;
    }
    if (std::ranges::find(kRearranging, node.op) == std::end(kRearranging)) break;
    id = *first_tensor(node);
  }
  return std::nullopt;
}

std::optional<hlo::Value> Lowering::write_permit(const Node& node) {
  const std::optional<ValueId> self = first_tensor(node);
  if (!ok_ || !self || kept_input(value(*self)) < 0) return std::nullopt;
  permit_taken_ = true;
  return ok_;
}

std::optional<hlo::Value> Lowering::passed(const Node& node, int64_t count) {
  std::optional<hlo::Value> bad;
  for (const Node* n = &node - count; n != &node; ++n) {
    for (const hlo::Value& found : bad_[n]) {
      bad = bad ? builder_.elementwise(Op::kOr, {*bad, found}) : found;
    }
  }
  if (!bad) return std::nullopt;
  return builder_.elementwise(Op::kNot, {*bad});
}

int32_t Lowering::kept_input(const Tensor& t) const {
  const auto it = kept_.find(t.value.id);
  return it != kept_.end() ? it->second : -1;
}

void Lowering::lower_node(size_t index) {
  if (lowered_[index]) return;
  lowered_[index] = true;
  const Node& node = *nodes_[index];
  // Within a region they would be known to it alone.
  if (!node.regions.empty()) for_each_read(node, [this](ValueId id) { value(id); });
  const Entry* entry = is_of_complex(node) ? find_complex_rule(node.op) : find_rule(node.op);
  const Call call(*this, node);
  permit_taken_ = false;
  Results results = refusing(node, [&] {
    if (entry == nullptr) refuse(node, "there is no rule for this op", kRewrite);
    return apply(*entry, call, node);
  });
  size_t wanted = node.results.size();
  while (wanted > 0 && !is_used(node.first_result + static_cast<ValueId>(wanted) - 1)) --wanted;
  if (results.size() > node.results.size() || results.size() < wanted) {
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
  if (permit_taken_)
    kept_[value(node.first_result).value.id] = kept_input(value(*first_tensor(node)));
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
  const Order& order = signature_.input_orders[mutation.input];
  if (!ok_ || kept_input(t) == mutation.input) {
    if (donates()) value(input.value);  // an argument although nothing may read it
    add_result(ProgramResult::Kind::kMutation, index, t, order);
    return;
  }
  const hlo::Value changed = reordered(t, order);
  const hlo::Value old = value(input.value).value;
  const Tensor kept{builder_.elementwise(Op::kSelect, {*ok_, changed, old}), order};
  add_result(ProgramResult::Kind::kMutation, index, kept, order);
}

hlo::Value Lowering::reordered(const Tensor& tensor, const Order& order) {
  const Dims from = inverse(tensor.order);
  Dims permutation;
  for (const int64_t d : order) permutation.push_back(from[d]);
  return builder_.transpose(tensor.value, permutation);
}

void Lowering::add_result(ProgramResult::Kind kind, int32_t index, const Tensor& tensor,
                          const Order& order) {
  const hlo::Value v = reordered(tensor, order);
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
  if (status_) add_result(ProgramResult::Kind::kStatus, -1, {*status_, {0}}, {0});
  if (options_.donation == Donation::kAll) add_output_memory();
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
  lower_checks();
  for (const Node& node : graph_.nodes) lower_node(index_of_node_.at(&node));
  lower_outputs();
  program_.text = builder_.module(results_);
  return std::move(program_);
}

Program lower(const Graph& graph, const Signature& signature, const Options& options) {
  verify(graph);
  return Lowering(graph, signature, options).run();
}

}  // namespace torch_pjrt::lower
