#include "graph/serialize.h"

#include <utility>
#include <variant>

#include "base/bytes.h"

namespace torch_pjrt {
namespace {

// One walk for writing and reading: `W` is a ByteWriter or a ByteReader, and each T is const for
// the first.
template <class W, class T>
void walk_size(W& w, T& size) {
  w.number(size.value);
  w.number(size.expr);
}

template <class W, class T>
void walk_type(W& w, T& type) {
  w.number(type.dtype);
  w.list(type.dims, [&](auto& size) { walk_size(w, size); });
  w.list(type.strides, [&](auto& size) { walk_size(w, size); });
  walk_size(w, type.offset);
}

template <class W, class T>
void walk_scalar(W& w, T& scalar) {
  w.number(scalar.kind);
  w.number(scalar.scalar_class);
  w.number(scalar.number.is_float);
  w.number(scalar.number.i);
  w.real(scalar.number.f);
  w.number(scalar.expr);
}

template <class W, class T>
void walk_arg(W& w, T& arg);

// The content of an argument, by its alternative.
template <class W>
struct WalkContent {
  W& w;
  template <class T>
  void operator()(T& v) const {
    using Plain = std::remove_const_t<T>;
    if constexpr (std::is_same_v<Plain, ValueRef>) {
      w.number(v.id);
    } else if constexpr (std::is_same_v<Plain, Slot>) {
      w.number(v.index);
    } else if constexpr (std::is_same_v<Plain, Size>) {
      walk_size(w, v);
    } else if constexpr (std::is_same_v<Plain, double>) {
      w.real(v);
    } else if constexpr (std::is_same_v<Plain, std::string>) {
      w.text(v);
    } else if constexpr (std::is_same_v<Plain, ArgList>) {
      w.list(v, [&](auto& item) { walk_arg(w, item); });
    } else if constexpr (!std::is_same_v<Plain, None>) {
      w.number(v);
    }
  }
};

using Content = decltype(Arg::v);

template <size_t... I>
Content empty_content(size_t index, std::index_sequence<I...>) {
  Content content;
  const bool known =
      ((index == I ? (content.emplace<I>(std::variant_alternative_t<I, Content>{}), true)
                   : false) ||
       ...);
  if (!known) fail(Code::kIo, "a stored graph has an argument of kind ", index);
  return content;
}

void walk_kind(ByteWriter& w, const Arg& arg) { w.number(arg.v.index()); }
void walk_kind(ByteReader& r, Arg& arg) {
  size_t index = 0;
  r.number(index);
  arg.v = empty_content(index, std::make_index_sequence<std::variant_size_v<Content>>());
}

template <class W, class T>
void walk_arg(W& w, T& arg) {
  walk_kind(w, arg);
  std::visit(WalkContent<W>{w}, arg.v);
}

template <class W, class T>
void walk_node(W& w, T& node) {
  w.text(node.op);
  w.list(node.args, [&](auto& named) {
    w.text(named.name);
    walk_arg(w, named.arg);
  });
  w.number(node.first_result);
  w.list(node.results, [&](auto& type) { walk_type(w, type); });
  w.text(node.source);
  w.list(node.regions, [&](auto& region) {
    w.list(region.parameters, [&](auto& parameter) {
      w.number(parameter.value);
      walk_type(w, parameter.type);
    });
    w.list(region.nodes, [&](auto& inner) { walk_node(w, inner); });
    w.list(region.results, [&](auto& id) { w.number(id); });
  });
}

template <class W, class T>
void walk_output(W& w, T& output) {
  w.number(output.kind);
  w.number(output.value);
  w.number(output.input);
  walk_type(w, output.type);
  walk_scalar(w, output.number);
  w.number(output.output);
}

// All but the expressions.
template <class W, class T>
void walk(W& w, T& graph) {
  w.list(graph.scalars, [&](auto& scalar) { walk_scalar(w, scalar); });
  w.list(graph.inputs, [&](auto& input) {
    w.number(input.kind);
    w.text(input.name);
    walk_type(w, input.type);
    w.number(input.value);
    walk_size(w, input.number);
    w.number(input.is_weight);
  });
  w.list(graph.draws, [&](auto& draw) { w.number(draw); });
  w.list(graph.nodes, [&](auto& node) { walk_node(w, node); });
  w.list(graph.outputs, [&](auto& output) { walk_output(w, output); });
  w.number(graph.num_hidden);
  w.list(graph.mutations, [&](auto& mutation) {
    w.number(mutation.input);
    w.number(mutation.value);
  });
  w.number(graph.num_values);
}

template <class W, class T>
void walk_expr(W& w, T& node) {
  w.number(node.op);
  w.list(node.args, [&](auto& id) { w.number(id); });
  w.number(node.i);
  w.real(node.f);
}

void write_exprs(ByteWriter& w, const Exprs& exprs) {
  w.list(exprs.symbols(), [&](const std::string& symbol) { w.text(symbol); });
  w.number(exprs.size());
  for (ExprId id = 0; id < exprs.size(); ++id) walk_expr(w, exprs.node(id));
}

ExprId add_expr(Exprs& exprs, const Exprs::Node& node, const std::vector<std::string>& symbols) {
  for (const ExprId id : node.args) {
    if (id < 0 || id >= exprs.size()) fail(Code::kIo, "a stored expression has a bad operand");
  }
  if (node.op > kLastExprOp) fail(Code::kIo, "a stored expression has an unknown operator");
  if (node.op == ExprOp::kInt) return exprs.add_int(node.i);
  if (node.op == ExprOp::kFloat) return exprs.add_float(node.f);
  if (node.op != ExprOp::kSymbol) return exprs.add(node.op, node.args);
  if (node.i < 0 || node.i >= static_cast<int64_t>(symbols.size())) {
    fail(Code::kIo, "a stored expression has an unknown symbol");
  }
  return exprs.add_symbol(symbols[node.i]);
}

// As they were added, so that they have the same ids.
void read_exprs(ByteReader& r, Exprs& exprs) {
  std::vector<std::string> symbols;
  r.list(symbols, [&](std::string& symbol) { r.text(symbol); });
  int64_t size = 0;
  r.number(size);
  for (ExprId id = 0; id < size; ++id) {
    Exprs::Node node{};
    walk_expr(r, node);
    if (add_expr(exprs, node, symbols) != id) {
      fail(Code::kIo, "stored expressions are not in their order");
    }
  }
  if (exprs.symbols() != symbols) fail(Code::kIo, "stored symbols are not in their order");
}

}  // namespace

std::string to_bytes(const Graph& graph) {
  ByteWriter writer;
  write_exprs(writer, graph.exprs);
  walk(writer, graph);
  return writer.take();
}

Graph graph_from_bytes(std::string_view bytes) {
  ByteReader reader(bytes, "a stored graph");
  Graph graph;
  try {
    read_exprs(reader, graph.exprs);
  } catch (const Error& error) {
    fail(Code::kIo, error.what());  // a wrong number of operands is no fault of ours here
  }
  walk(reader, graph);
  reader.finish();
  try {
    verify(graph);
  } catch (const Error& error) {
    fail(Code::kIo, "of a stored graph: ", error.what());
  }
  return graph;
}

}  // namespace torch_pjrt
