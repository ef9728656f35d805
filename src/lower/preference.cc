#include "lower/preference.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>

namespace torch_pjrt::lower {
namespace {

// To look at a copy of a weight costs as much as to lay out a smaller one anew. A depthwise
// convolution gains by the size of its images.
constexpr int64_t kLeastBytes = 16 << 10;
constexpr int64_t kLeastDepthwiseBytes = 256;
// To lay out a kernel anew is some 3 % of a convolution that reads each element so often, too
// little to keep a second copy of a large one for.
constexpr int64_t kManyUses = 784;
constexpr int64_t kMostBytes = 1 << 20;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

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

// The product of dims that are all known.
std::optional<int64_t> product(std::span<const Size> dims) {
  int64_t n = 1;
  for (const Size& size : dims) {
    if (size.is_symbolic()) return std::nullopt;
    n *= size.value;
  }
  return n;
}

// How often a convolution reads each element of its kernel, at most: once per position of each
// image of its result.
std::optional<int64_t> uses(const SymType& images) {
  const std::span<const Size> dims = images.dims;
  const std::optional<int64_t> batch = product(dims.first(1));
  const std::optional<int64_t> positions = product(dims.subspan(2));
  return batch && positions ? std::optional(*batch * *positions) : std::nullopt;
}

// Window first, then the channels, which are dims 0 (out) and 1 (in).
Order kernel_order(const SymType& kernel, const Order& channels) {
  Order order;
  for (size_t d = 2; d < kernel.dims.size(); ++d) order.push_back(static_cast<int64_t>(d));
  order.insert(order.end(), channels.begin(), channels.end());
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
  std::optional<Preference> preference;
};

class Preferences {
 public:
  explicit Preferences(const Graph& graph)
      : wishes_(static_cast<size_t>(graph.num_values)),
        types_(static_cast<size_t>(graph.num_values)) {
    for (const Input& input : graph.inputs) {
      if (input.kind == Input::Kind::kTensor) types_[input.value] = &input.type;
    }
    for (const Node& node : graph.nodes) {
      for (size_t k = 0; k < node.results.size(); ++k)
        types_[node.first_result + static_cast<ValueId>(k)] = &node.results[k];
    }
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
  std::optional<Preference> of(ValueId id) const {
    return wishes_[id].size() == 1 ? *wishes_[id].begin() : std::nullopt;
  }

 private:
  void add(ValueId id, const std::optional<Preference>& p) { wishes_[id].insert(p); }

  std::optional<Preference> of_kernel(const Node& node) const {
    const Arg* weight = find(node, "weight");
    const auto* ref = weight ? std::get_if<ValueRef>(&weight->v) : nullptr;
    const SymType* kernel = ref ? types_[ref->id] : nullptr;
    if (!kernel || !is_false(node, "transposed")) return std::nullopt;
    const bool is_used_often = uses(node.results[0]).value_or(0) >= kManyUses;
    const int64_t most = is_used_often ? kMostBytes : kNoLimit;
    if (is_one(node, "groups")) return Preference{kernel_order(*kernel, {1, 0}), kLeastBytes, most};
    if (!is_one(kernel->dims[1])) return std::nullopt;
    return Preference{kernel_order(*kernel, {0, 1}), kLeastDepthwiseBytes, kNoLimit};
  }

  Wish wish(const Node& node) const {
    if (node.op == "aten::convolution") return {"weight", of_kernel(node)};
    // One row is multiplied as fast in either order.
    if ((node.op == "aten::mm" || node.op == "aten::addmm") && !is_one(node.results[0].dims[0]))
      return {"mat2", Preference{{0, 1}, kLeastBytes, kNoLimit}};
    const std::optional<Order> moved = permutation(node);
    const std::optional<Preference> wanted = moved ? of(node.first_result) : std::nullopt;
    if (!wanted) return {};
    Preference here{{}, wanted->least_bytes, wanted->most_bytes};
    for (const int64_t d : wanted->order) here.order.push_back((*moved)[d]);
    return {"self", here};
  }

  void visit(const Node& node) {
    const Wish wished = wish(node);
    for (const NamedArg& a : node.args)
      read(a.arg, a.name == wished.argument ? wished.preference : std::nullopt);
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

  void read(const Arg& arg, const std::optional<Preference>& p) {
    if (const auto* ref = std::get_if<ValueRef>(&arg.v)) add(ref->id, p);
    if (const auto* list = std::get_if<ArgList>(&arg.v)) {
      for (const Arg& item : *list) read(item, std::nullopt);
    }
  }

  std::vector<std::set<std::optional<Preference>>> wishes_;
  std::vector<const SymType*> types_;  // none of what only regions know
};

}  // namespace

std::vector<std::optional<Preference>> preferred_orders(const Graph& graph,
                                                        const Options& options) {
  std::vector<std::optional<Preference>> orders(graph.inputs.size());
  if (options.platform != "cpu") return orders;
  const Preferences preferences(graph);
  for (size_t i = 0; i < orders.size(); ++i) {
    if (graph.inputs[i].kind == Input::Kind::kTensor)
      orders[i] = preferences.of(graph.inputs[i].value);
  }
  return orders;
}

}  // namespace torch_pjrt::lower
