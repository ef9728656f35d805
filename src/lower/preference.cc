#include "lower/preference.h"

#include <algorithm>
#include <set>

namespace torch_pjrt::lower {
namespace {

const Arg* find(const Node& node, std::string_view name) {
  const auto it = std::ranges::find(node.args, name, &NamedArg::name);
  return it == node.args.end() ? nullptr : &it->arg;
}

bool is_false(const Node& node, std::string_view name) {
  const Arg* arg = find(node, name);
  const bool* value = arg ? std::get_if<bool>(&arg->v) : nullptr;
  return value && !*value;
}

bool is_one(const Size& size) { return !size.is_symbolic() && size.value == 1; }

bool is_one(const Node& node, std::string_view name) {
  const Arg* arg = find(node, name);
  const Size* size = arg ? std::get_if<Size>(&arg->v) : nullptr;
  return size && is_one(*size);
}

// Window first, then channels in, then out.
Order kernel_order(size_t rank) {
  Order order;
  for (size_t d = 2; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
  order.push_back(1);
  order.push_back(0);
  return order;
}

// The result's dim k is self's dim [k]; none for an op that isn't such a view.
std::optional<Order> permutation(const Node& node) {
  if (node.op != "aten::t" && node.op != "aten::permute") return std::nullopt;
  const auto rank = static_cast<int64_t>(node.results[0].dims.size());
  if (node.op == "aten::t") return rank == 2 ? std::optional(Order{1, 0}) : std::nullopt;
  Order order;
  for (const Arg& arg : std::get<ArgList>(find(node, "dims")->v)) {
    const int64_t d = std::get<Size>(arg.v).value;
    order.push_back(d < 0 ? d + rank : d);
  }
  return order;
}

// What a node wants of one of its arguments; nothing of all others.
struct Wish {
  std::string_view argument;
  std::optional<Order> order;
};

class Preferences {
 public:
  explicit Preferences(const Graph& graph) : wishes_(static_cast<size_t>(graph.num_values)) {
    for (const Output& o : graph.outputs) {
      if (o.kind == Output::Kind::kValue) add(o.value, std::nullopt);
    }
    for (const Mutation& m : graph.mutations) {
      add(m.value, std::nullopt);
      add(graph.inputs[m.input].value, std::nullopt);
    }
    // Nodes that read a value come after the one that gives it.
    for (size_t n = graph.nodes.size(); n-- > 0;) visit(graph.nodes[n]);
  }

  // What all its readers want.
  std::optional<Order> of(ValueId id) const {
    return wishes_[id].size() == 1 ? *wishes_[id].begin() : std::nullopt;
  }

 private:
  void add(ValueId id, const std::optional<Order>& order) { wishes_[id].insert(order); }

  Wish wish(const Node& node) const {
    if (node.op == "aten::convolution" && is_false(node, "transposed") && is_one(node, "groups"))
      return {"weight", kernel_order(node.results[0].dims.size())};
    // One row is multiplied as fast in either order.
    if ((node.op == "aten::mm" || node.op == "aten::addmm") && !is_one(node.results[0].dims[0]))
      return {"mat2", Order{0, 1}};
    const std::optional<Order> moved = permutation(node);
    const std::optional<Order> wanted = moved ? of(node.first_result) : std::nullopt;
    if (!wanted) return {};
    Order order;
    for (const int64_t d : *wanted) order.push_back((*moved)[d]);
    return {"self", order};
  }

  void visit(const Node& node) {
    const Wish wished = wish(node);
    for (const NamedArg& a : node.args)
      read(a.arg, a.name == wished.argument ? wished.order : std::nullopt);
    for (const Region& region : node.regions) read_all(region);
  }

  // Nothing is wished within a region.
  void read_all(const Region& region) {
    for (const ValueId id : region.results) add(id, std::nullopt);
    for (const Node& node : region.nodes) {
      for (const NamedArg& a : node.args) read(a.arg, std::nullopt);
      for (const Region& inner : node.regions) read_all(inner);
    }
  }

  void read(const Arg& arg, const std::optional<Order>& order) {
    if (const auto* ref = std::get_if<ValueRef>(&arg.v)) add(ref->id, order);
    if (const auto* list = std::get_if<ArgList>(&arg.v)) {
      for (const Arg& item : *list) read(item, std::nullopt);
    }
  }

  std::vector<std::set<std::optional<Order>>> wishes_;
};

}  // namespace

std::vector<std::optional<Order>> preferred_orders(const Graph& graph, const Options& options) {
  std::vector<std::optional<Order>> orders(graph.inputs.size());
  if (options.platform != "cpu") return orders;
  const Preferences preferences(graph);
  for (size_t i = 0; i < orders.size(); ++i) {
    if (graph.inputs[i].kind == Input::Kind::kTensor)
      orders[i] = preferences.of(graph.inputs[i].value);
  }
  return orders;
}

}  // namespace torch_pjrt::lower
