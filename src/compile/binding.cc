#include "compile/binding.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "base/error.h"

namespace torch_pjrt::compile {
namespace {

std::string describe(const Graph& graph, size_t i) {
  return str("input ", i, " (", graph.inputs[i].name, ")");
}

std::string symbol_values(const Graph& graph, std::span<const int64_t> symbols) {
  std::string text;
  for (size_t s = 0; s < symbols.size(); ++s) {
    text += str(text.empty() ? " with " : ", ", graph.exprs.symbols()[s], " = ", symbols[s]);
  }
  return text;
}

std::string symbolic_type(const Graph& graph, const SymType& type) {
  std::string text = str(name(type.dtype), "[");
  for (size_t d = 0; d < type.dims.size(); ++d) {
    text += (d ? "," : "") + graph.exprs.print(type.dims[d]);
  }
  return text + "]";
}

void check_tensor(const Graph& graph, size_t i, const Argument& argument,
                  std::span<const int64_t> symbols) {
  const SymType& type = graph.inputs[i].type;
  const run::HostTensor& tensor = argument.tensor;
  bool matches = tensor.dtype == type.dtype && tensor.dims.size() == type.dims.size();
  for (size_t d = 0; matches && d < type.dims.size(); ++d) {
    matches = graph.exprs.evaluate(type.dims[d], symbols) == tensor.dims[d];
  }
  if (matches) return;
  fail(Code::kInvalid, describe(graph, i), ": expected ", symbolic_type(graph, type),
       symbol_values(graph, symbols), ", got ",
       to_string(Type{tensor.dtype, Dims(tensor.dims.begin(), tensor.dims.end())}));
}

void check_number(const Graph& graph, size_t i, int64_t number, std::span<const int64_t> symbols) {
  const Size& size = graph.inputs[i].number;
  if (graph.exprs.evaluate(size, symbols) == number) return;
  fail(Code::kInvalid, describe(graph, i), ": expected the int ", graph.exprs.print(size),
       symbol_values(graph, symbols), ", got ", number);
}

void check_kinds(const Graph& graph, std::span<const Argument> arguments) {
  if (arguments.size() != graph.inputs.size()) {
    fail(Code::kInvalid, "the program takes ", graph.inputs.size(), " inputs, got ",
         arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool wants_tensor = graph.inputs[i].kind == Input::Kind::kTensor;
    if (wants_tensor == arguments[i].is_tensor) continue;
    fail(Code::kInvalid, describe(graph, i), ": expected ", wants_tensor ? "a tensor" : "an int",
         ", got ", wants_tensor ? "an int" : "a tensor");
  }
}

void mark(const Graph& graph, const Size& size, std::vector<bool>& used) {
  if (size.is_symbolic()) graph.exprs.mark_symbols(size.expr, used);
}

// symbol * factor + offset; no symbol (-1): the offset alone.
struct Linear {
  int64_t symbol = -1;
  int64_t factor = 0;
  int64_t offset = 0;
};

std::optional<Linear> linear(const Exprs& exprs, ExprId id);

// Of two operands' forms one has no symbol at least.
std::optional<Linear> combine(ExprOp op, const Linear& a, const Linear& b) {
  if (a.symbol >= 0 && b.symbol >= 0) return std::nullopt;
  const Linear& of_symbol = b.symbol >= 0 ? b : a;
  const int64_t number = b.symbol >= 0 ? a.offset : b.offset;
  Linear result = of_symbol;
  const bool overflows = op == ExprOp::kAdd
                             ? __builtin_add_overflow(of_symbol.offset, number, &result.offset)
                             : __builtin_mul_overflow(of_symbol.offset, number, &result.offset) ||
                                   __builtin_mul_overflow(of_symbol.factor, number, &result.factor);
  return overflows ? std::nullopt : std::optional(result);
}

// The expression as such, if it is one.
std::optional<Linear> linear(const Exprs& exprs, ExprId id) {
  const Exprs::Node& n = exprs.node(id);
  if (n.op == ExprOp::kSymbol) return Linear{n.i, 1, 0};
  if (n.op == ExprOp::kInt) return Linear{-1, 0, n.i};
  if (n.op != ExprOp::kAdd && n.op != ExprOp::kMul) return std::nullopt;
  std::optional<Linear> result = linear(exprs, n.args[0]);
  for (size_t k = 1; result && k < n.args.size(); ++k) {
    const std::optional<Linear> next = linear(exprs, n.args[k]);
    result = next ? combine(n.op, *result, *next) : std::nullopt;
  }
  return result;
}

// Symbols that a call has to know. Strides and offsets of inputs are not among them: these are read
// from the tensors.
std::vector<bool> needed_symbols(const Graph& graph) {
  Graph rest;
  rest.exprs = graph.exprs;
  rest.nodes = graph.nodes;
  rest.outputs = graph.outputs;
  std::vector<bool> used = structural_symbols(rest);
  for (const Input& input : graph.inputs) {
    for (const Size& s : input.type.dims) mark(graph, s, used);
    mark(graph, input.number, used);
  }
  for (const Scalar& s : graph.scalars) {
    if (s.expr >= 0) graph.exprs.mark_symbols(s.expr, used);
  }
  for (const Output& output : graph.outputs) {
    for (const Size& s : output.type.dims) mark(graph, s, used);
    for (const Size& s : output.type.strides) mark(graph, s, used);
    mark(graph, output.type.offset, used);
    if (output.kind == Output::Kind::kNumber && output.number.expr >= 0) {
      graph.exprs.mark_symbols(output.number.expr, used);
    }
  }
  return used;
}

}  // namespace

Dims evaluate(const Exprs& exprs, const std::vector<Size>& sizes,
              std::span<const int64_t> symbols) {
  Dims values;
  values.reserve(sizes.size());
  for (const Size& s : sizes) values.push_back(exprs.evaluate(s, symbols));
  return values;
}

// Gives sources to symbols that aren't known: inputs that are a symbol, or that tell of one.
void Binding::add_sources(const Graph& graph, bool only_symbols, std::vector<bool>& known) {
  const auto add = [&](const Size& size, size_t input, int32_t dim) {
    if (!size.is_symbolic()) return;
    const std::optional<Linear> l = linear(graph.exprs, size.expr);
    if (!l || l->symbol < 0 || l->factor == 0 || known[l->symbol]) return;
    if (only_symbols && graph.exprs.as_symbol(size.expr) < 0) return;
    known[l->symbol] = true;
    sources_.push_back(
        {static_cast<int32_t>(l->symbol), static_cast<int32_t>(input), dim, l->factor, l->offset});
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].kind == Input::Kind::kNumber) add(graph.inputs[i].number, i, -1);
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::vector<Size>& dims = graph.inputs[i].type.dims;
    for (size_t d = 0; d < dims.size(); ++d) add(dims[d], i, static_cast<int32_t>(d));
  }
}

Binding::Binding(const Graph& graph) : free_(graph.inputs.size()) {
  const std::vector<std::string>& names = graph.exprs.symbols();
  std::vector<bool> known(names.size());
  for (const bool only_symbols : {true, false}) add_sources(graph, only_symbols, known);
  std::vector<Source> ordered;  // the ints, then the dims
  for (const bool is_dim : {false, true}) {
    std::ranges::copy_if(sources_, std::back_inserter(ordered),
                         [&](const Source& s) { return (s.dim >= 0) == is_dim; });
  }
  sources_ = std::move(ordered);
  const std::vector<bool> needed = needed_symbols(graph);
  for (size_t s = 0; s < names.size(); ++s) {
    if (!needed[s] || known[s]) continue;
    fail(Code::kUnsupported, "the size ", names[s],
         " can't be read from the inputs: it is neither an int input nor a dim of a tensor");
  }
  const std::vector<bool> structural = structural_symbols(graph);
  std::ranges::copy_if(sources_, std::back_inserter(structural_),
                       [&](const Source& s) { return structural[s.symbol]; });
  // An expression may read free symbols, so it is checked at each call and not part of the match.
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Size& number = graph.inputs[i].number;
    if (graph.inputs[i].kind != Input::Kind::kNumber || !number.is_symbolic()) continue;
    if (graph.exprs.as_symbol(number.expr) >= 0) continue;
    computed_.push_back(static_cast<int32_t>(i));
    free_[i] = true;
  }
  for (const Source& s : sources_) {
    if (s.dim < 0) free_[s.input] = !structural[s.symbol];
  }
}

std::vector<int64_t> Binding::bind(const Graph& graph, std::span<const Argument> arguments) const {
  check_kinds(graph, arguments);
  std::vector<int64_t> symbols(graph.exprs.symbols().size());
  for (const Source& s : sources_) {
    const Argument& a = arguments[s.input];
    if (s.dim >= static_cast<int64_t>(a.tensor.dims.size())) {
      check_tensor(graph, s.input, a, symbols);
    }
    symbols[s.symbol] = s.solve(s.number(arguments));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_tensor) {
      check_tensor(graph, i, arguments[i], symbols);
    } else {
      check_number(graph, i, arguments[i].number, symbols);
    }
  }
  return symbols;
}

uint64_t Binding::hash(std::span<const Argument> arguments) const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 by the golden ratio: spreads small numbers
  uint64_t hash = 0;
  for (const Source& s : structural_) {
    const Argument& a = arguments[s.input];
    if (s.dim >= static_cast<int64_t>(a.tensor.dims.size())) return 0;
    hash = (hash ^ static_cast<uint64_t>(s.number(arguments))) * kOdd;
    hash ^= hash >> 32;
  }
  return hash;
}

std::string Binding::describe(const Graph& graph, size_t symbol) const {
  const std::string& own = graph.exprs.symbols()[symbol];
  // A dim says more than the int that Dynamo passes for it.
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::vector<Size>& dims = graph.inputs[i].type.dims;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].is_symbolic() &&
          graph.exprs.as_symbol(dims[d].expr) == static_cast<int64_t>(symbol)) {
        return str("symbol ", own, " (", graph.inputs[i].name, ".shape[", d, "])");
      }
    }
  }
  return "symbol " + own;
}

void Binding::bind_numbers(const Graph& graph, std::span<const Argument> arguments,
                           std::vector<int64_t>& symbols) const {
  for (const Source& s : sources_) {
    if (s.dim >= 0) break;
    symbols[s.symbol] = s.solve(arguments[s.input].number);
  }
  for (const int32_t i : computed_) check_number(graph, i, arguments[i].number, symbols);
}

std::vector<int64_t> Binding::hints(const Graph& graph) const {
  std::vector<int64_t> symbols(graph.exprs.symbols().size());
  for (const Source& s : sources_) {
    const Input& input = graph.inputs[s.input];
    symbols[s.symbol] = s.solve(s.dim < 0 ? input.number.value : input.type.dims[s.dim].value);
  }
  return symbols;
}

}  // namespace torch_pjrt::compile
