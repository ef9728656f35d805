// Canonical bytes: what two graphs must share to be served by one program.
#include <cstring>

#include "graph/graph.h"

namespace torch_pjrt {
namespace {

class Writer {
 public:
  std::string take() { return std::move(bytes_); }

  void put(uint8_t v) { bytes_.push_back(static_cast<char>(v)); }
  void put(bool v) { put(static_cast<uint8_t>(v)); }
  void put(DType d) { put(static_cast<uint8_t>(d)); }
  void put(int64_t v) { bytes_.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void put(int32_t v) { put(static_cast<int64_t>(v)); }
  void put(uint64_t v) { put(static_cast<int64_t>(v)); }
  void put(double v) {
    int64_t bits = 0;
    std::memcpy(&bits, &v, sizeof bits);
    put(bits);
  }
  void put(const std::string& s) {
    put(s.size());
    bytes_ += s;
  }
  // A symbolic size is its expression; its hint is no part of the program.
  void put(const Size& s) {
    put(s.is_symbolic());
    put(s.is_symbolic() ? static_cast<int64_t>(s.expr) : s.value);
  }
  template <class T>
  void put(const std::vector<T>& items) {
    put(items.size());
    for (const T& item : items) put(item);
  }
  void put(const SymType& t, bool with_strides) {
    put(t.dtype);
    put(t.dims);
    if (with_strides) put(t.strides);
  }
  void put(const Arg& arg) {
    put(static_cast<uint8_t>(arg.v.index()));
    std::visit([this](const auto& v) { put_arg(v); }, arg.v);
  }
  void put(const NamedArg& a) { put(a.arg); }
  void put(const Node& node) {
    put(node.op);
    put(node.args);
    put(node.results.size());
    for (const SymType& t : node.results) put(t, false);
    if (!node.regions.empty()) put(node.first_result);  // what the regions compute comes before
    put(node.regions);
  }
  void put(const Region& region) {
    put(region.parameters.size());
    for (const Region::Parameter& p : region.parameters) {
      put(p.value);
      put(p.type, false);
    }
    put(region.nodes.size());
    for (const Node& node : region.nodes) {
      put(node.first_result);
      put(node);
    }
    put(region.results);
  }
  void put(const Exprs::Node& n) {
    put(static_cast<uint8_t>(n.op));
    put(n.args);
    put(n.i);
    put(n.f);
  }
  void put(const Scalar& s) {
    put(static_cast<uint8_t>(s.kind));
    put(static_cast<uint8_t>(s.scalar_class));
    // What the sizes decide may be a constant of the program; a number is none.
    put(s.expr);
  }

 private:
  void put_arg(None) {}
  void put_arg(ValueRef r) { put(r.id); }
  void put_arg(Slot s) { put(s.index); }
  template <class T>
  void put_arg(const T& v) {
    put(v);
  }

  std::string bytes_;
};

}  // namespace

std::string canonical_bytes(const Graph& graph) {
  Writer w;
  w.put(graph.exprs.size());
  for (ExprId id = 0; id < graph.exprs.size(); ++id) w.put(graph.exprs.node(id));
  w.put(graph.scalars);
  w.put(graph.inputs.size());
  for (const Input& input : graph.inputs) {
    w.put(static_cast<uint8_t>(input.kind));
    if (input.kind == Input::Kind::kTensor) {
      w.put(input.value);        // ids tell inputs from results
      w.put(input.type, false);  // layouts are a key part of their own
    } else {
      w.put(input.number);
    }
  }
  w.put(graph.draws);
  w.put(graph.nodes);
  w.put(graph.outputs.size());
  for (const Output& output : graph.outputs) {
    w.put(static_cast<uint8_t>(output.kind));
    if (output.kind == Output::Kind::kValue) {
      w.put(output.value);
      w.put(output.type, true);
      w.put(output.input);
    }
  }
  w.put(graph.mutations.size());
  for (const Mutation& m : graph.mutations) {
    w.put(m.input);
    w.put(m.value);
  }
  return w.take();
}

}  // namespace torch_pjrt
