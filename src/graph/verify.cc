// What has to hold for a graph, wherever it comes from.
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace torch_pjrt {
namespace {

// One walk in the order in which a program computes; `known_` are the values so far.
class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), known_(graph.num_values < 0 ? 0 : static_cast<size_t>(graph.num_values)) {}

  void run() {
    for (const Scalar& s : graph_.scalars) check_scalar(s);
    check_complex_scalars();
    for (const Input& input : graph_.inputs) check_input(input);
    for (const ValueId draw : graph_.draws) define(draw);
    for (const Node& node : graph_.nodes) check_node(node);
    check(graph_.num_hidden >= 0 && graph_.num_hidden <= count(graph_.outputs), "hidden outputs");
    for (int32_t i = 0; i < count(graph_.outputs); ++i) check_output(i);
    std::vector<bool> mutated(graph_.inputs.size());
    for (const Mutation& m : graph_.mutations) check_mutation(m, mutated);
  }

 private:
  template <class List>
  static int32_t count(const List& list) {
    return static_cast<int32_t>(list.size());
  }
  static void check(bool holds, const char* what) {
    if (!holds) fail(Code::kInternal, "a graph isn't sound: ", what);
  }

  void check_expr(ExprId id) const {
    check(id >= -1 && id < graph_.exprs.size(), "an expression isn't there");
  }
  void check_scalar(const Scalar& s) const {
    check(s.kind <= ScalarKind::kComplex && s.scalar_class <= ScalarClass::kOther,
          "a number of an unknown kind");
    check_expr(s.expr);
  }
  // Each has its imaginary part after it.
  void check_complex_scalars() const {
    for (size_t i = 0; i < graph_.scalars.size(); ++i) {
      if (graph_.scalars[i].kind != ScalarKind::kComplex) continue;
      check(i + 1 < graph_.scalars.size() && graph_.scalars[i + 1].kind == ScalarKind::kFloat,
            "half a complex number");
    }
  }
  void check_type(const SymType& type) const {
    check(static_cast<int>(type.dtype) < kNumDTypes, "an unknown dtype");
    check(type.dims.size() == type.strides.size(), "a type whose strides aren't its dims'");
    for (const Size& s : type.dims) check_expr(s.expr);
    for (const Size& s : type.strides) check_expr(s.expr);
    check_expr(type.offset.expr);
  }

  void define(ValueId id) {
    check(id >= 0 && id < graph_.num_values && !known_[id], "a value that is defined twice");
    known_[id] = true;
  }
  void check_value(ValueId id, std::string_view reader) const {
    if (id >= 0 && id < graph_.num_values && known_[id]) return;
    fail(Code::kInternal, "a graph isn't sound: ", reader, " reads the value %", id,
         ", which isn't known there");
  }
  void check_input(const Input& input) {
    check(input.kind <= Input::Kind::kNumber, "an input of an unknown kind");
    check_type(input.type);
    check_expr(input.number.expr);
    if (input.kind == Input::Kind::kTensor) define(input.value);
  }
  bool is_tensor(int32_t input) const {
    return input >= 0 && input < count(graph_.inputs) &&
           graph_.inputs[input].kind == Input::Kind::kTensor;
  }

  void check_arg(const Arg& arg, std::string_view reader) const {
    if (const auto* ref = std::get_if<ValueRef>(&arg.v)) check_value(ref->id, reader);
    if (const auto* size = std::get_if<Size>(&arg.v)) check_expr(size->expr);
    if (const auto* slot = std::get_if<Slot>(&arg.v)) {
      check(slot->index >= 0 && slot->index < count(graph_.scalars), "a scalar isn't there");
    }
    if (const auto* dtype = std::get_if<DType>(&arg.v)) {
      check(static_cast<int>(*dtype) < kNumDTypes, "an unknown dtype");
    }
    if (const auto* list = std::get_if<ArgList>(&arg.v)) {
      for (const Arg& a : *list) check_arg(a, reader);
    }
  }
  void check_node(const Node& node) {
    for (const NamedArg& a : node.args) check_arg(a.arg, node.op);
    for (const Region& region : node.regions) check_region(region);
    for (int32_t i = 0; i < count(node.results); ++i) {
      check_type(node.results[i]);
      check(node.first_result >= 0 && node.first_result < graph_.num_values, "a bad result");
      define(node.first_result + i);
    }
  }

  // It may read what is known at its node; what it computes is known to itself alone.
  void check_region(const Region& region) {
    const std::vector<bool> outside = known_;
    for (const Region::Parameter& p : region.parameters) {
      check_type(p.type);
      define(p.value);
    }
    for (const Node& node : region.nodes) check_node(node);
    for (const ValueId id : region.results) check_value(id, "a region");
    known_ = outside;
  }

  void check_output(int32_t i) const {
    using Kind = Output::Kind;
    const Output& o = graph_.outputs[i];
    check(o.kind <= Kind::kNone, "an output of an unknown kind");
    check_type(o.type);
    check_scalar(o.number);
    if (o.kind == Kind::kValue) {
      check_value(o.value, "an output");
      check(o.input == -1 || is_tensor(o.input), "memory of no tensor");
    }
    if (o.kind == Kind::kInput) check(o.input >= 0 && o.input < count(graph_.inputs), "no input");
    if (o.kind == Kind::kView) check(is_tensor(o.input), "a view of no tensor");
    if (o.kind == Kind::kSame) check(o.output >= 0 && o.output < i, "no earlier output");
    if (o.kind == Kind::kPart) {
      check(o.output >= 0 && o.output < count(graph_.outputs) &&
                graph_.outputs[o.output].kind == Kind::kValue,
            "a part of what has no memory");
    }
  }
  void check_mutation(const Mutation& m, std::vector<bool>& mutated) const {
    check(is_tensor(m.input) && !mutated[m.input],
          "a mutation of no tensor input, or of one twice");
    mutated[m.input] = true;
    check_value(m.value, "a mutation");
  }

  const Graph& graph_;
  std::vector<bool> known_;
};

// Values that nodes and their regions define.
size_t count_values(const std::vector<Node>& nodes) {
  size_t count = 0;
  for (const Node& node : nodes) {
    count += node.results.size();
    for (const Region& region : node.regions) {
      count += region.parameters.size() + count_values(region.nodes);
    }
  }
  return count;
}

}  // namespace

void verify(const Graph& graph) {
  // Each value is an input's, a draw's or a result's.
  const size_t defined = graph.inputs.size() + graph.draws.size() + count_values(graph.nodes);
  if (graph.num_values < 0 || static_cast<size_t>(graph.num_values) > defined) {
    fail(Code::kInternal, "a graph isn't sound: it has ", graph.num_values, " values");
  }
  Verifier(graph).run();
}

}  // namespace torch_pjrt
