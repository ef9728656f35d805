// Graph, as the FX front builds it.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/serialize.h"
#include "lower/lower.h"
#include "python/bind.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

// A dtype as an argument's value; a plain string is a string.
struct DTypeArg {
  DType dtype;
};

using TypeTuple = std::tuple<std::string, nb::sequence, nb::sequence, nb::object>;
using ArgTuple = std::tuple<std::string, bool, nb::object>;

DType dtype_of_name(const std::string& dtype_name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype_name == name(dtype)) return dtype;
  }
  fail(Code::kUnsupported, "tensors of dtype ", dtype_name, " are not supported");
}

std::string class_name(nb::handle object) { return Py_TYPE(object.ptr())->tp_name; }

int64_t to_int(nb::handle object) {
  int64_t value = 0;
  if (!nb::try_cast(object, value)) {
    fail(Code::kUnsupported, "the int ", nb::repr(object).c_str(), " doesn't fit into 64 bits");
  }
  return value;
}

Size to_size(nb::handle object) {
  if (nb::isinstance<Size>(object)) return nb::cast<Size>(object);
  if (PyLong_Check(object.ptr())) return to_int(object);
  fail(Code::kInvalid, "expected an int or a Size, got ", class_name(object));
}

std::vector<Size> to_sizes(nb::handle sequence) {
  std::vector<Size> sizes;
  for (const nb::handle item : sequence) sizes.push_back(to_size(item));
  return sizes;
}

SymType to_type(const TypeTuple& t) {
  return {dtype_of_name(std::get<0>(t)), to_sizes(std::get<1>(t)), to_sizes(std::get<2>(t)),
          to_size(std::get<3>(t))};
}

// The kind of number that an expression gives.
ScalarKind kind_of(const Exprs& exprs, ExprId id) {
  const Exprs::Node& node = exprs.node(id);
  switch (node.op) {
    case ExprOp::kFloat:
    case ExprOp::kToFloat:
    case ExprOp::kIntTrueDiv:
    case ExprOp::kFloatTrueDiv:
    case ExprOp::kFloatPow:
    case ExprOp::kSqrt:
    case ExprOp::kExp:
    case ExprOp::kLog:
    case ExprOp::kLog2:
      return ScalarKind::kFloat;
    case ExprOp::kEq:
    case ExprOp::kNe:
    case ExprOp::kLt:
    case ExprOp::kLe:
    case ExprOp::kGt:
    case ExprOp::kGe:
    case ExprOp::kAnd:
    case ExprOp::kOr:
    case ExprOp::kNot:
      return ScalarKind::kBool;
    case ExprOp::kAdd:
    case ExprOp::kMul:
    case ExprOp::kPow:
    case ExprOp::kFloorDiv:
    case ExprOp::kMod:
    case ExprOp::kPythonMod:
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kAbs:
    case ExprOp::kWhere:
    case ExprOp::kIdentity:
      break;
    default:
      return ScalarKind::kInt;
  }
  for (size_t i = node.op == ExprOp::kWhere ? 1 : 0; i < node.args.size(); ++i) {
    if (kind_of(exprs, node.args[i]) == ScalarKind::kFloat) return ScalarKind::kFloat;
  }
  return ScalarKind::kInt;
}

// The number if it is one, with `known` false for one that depends on symbols.
struct PythonNumber {
  Scalar scalar;
  bool known;
};

std::optional<PythonNumber> to_number(const Graph& graph, nb::handle object) {
  PyObject* p = object.ptr();
  if (PyBool_Check(p)) {
    return PythonNumber{Scalar::constant(ScalarKind::kBool, Number::of_int(p == Py_True)), true};
  }
  if (PyLong_Check(p)) {
    return PythonNumber{Scalar::constant(ScalarKind::kInt, Number::of_int(to_int(object))), true};
  }
  if (PyFloat_Check(p)) {
    const Number number = Number::of_float(PyFloat_AS_DOUBLE(p));
    return PythonNumber{Scalar::constant(ScalarKind::kFloat, number), true};
  }
  if (!nb::isinstance<Size>(object)) return std::nullopt;
  const Size size = nb::cast<Size>(object);
  if (!size.is_symbolic()) {
    return PythonNumber{Scalar::constant(ScalarKind::kInt, Number::of_int(size.value)), true};
  }
  return PythonNumber{Scalar::symbolic(kind_of(graph.exprs, size.expr), size.expr), false};
}

// An argument that is structure.
Arg to_arg(nb::handle object) {
  PyObject* p = object.ptr();
  if (object.is_none()) return {None()};
  if (nb::isinstance<ValueRef>(object)) return {nb::cast<ValueRef>(object)};
  if (nb::isinstance<Size>(object)) return {nb::cast<Size>(object)};
  if (nb::isinstance<DTypeArg>(object)) return {nb::cast<DTypeArg>(object).dtype};
  if (PyBool_Check(p)) return {p == Py_True};
  if (PyLong_Check(p)) return {Size(to_int(object))};
  if (PyFloat_Check(p)) return {PyFloat_AS_DOUBLE(p)};
  if (PyUnicode_Check(p)) return {nb::cast<std::string>(object)};
  if (PyList_Check(p) || PyTuple_Check(p)) {
    ArgList list;
    for (const nb::handle item : object) list.push_back(to_arg(item));
    return {std::move(list)};
  }
  fail(Code::kUnsupported, "arguments of type ", class_name(object), " are not supported");
}

Arg to_arg(Graph& graph, const std::string& op, const ArgTuple& argument) {
  const auto& [argument_name, is_number_type, object] = argument;
  if (PyComplex_Check(object.ptr())) {
    if (!lower::is_value(op, argument_name, is_number_type, nullptr)) {
      fail(Code::kUnsupported, "a complex number has no place here; pass a real one");
    }
    const Py_complex number = PyComplex_AsCComplex(object.ptr());
    return {graph.add_complex(number.real, number.imag)};
  }
  if (const auto number = to_number(graph, object)) {
    const Number* known = number->known ? &number->scalar.number : nullptr;
    if (lower::is_value(op, argument_name, is_number_type, known)) {
      return {graph.add_scalar(number->scalar)};
    }
  }
  return to_arg(object);
}

ValueId add_node(Graph& graph, const std::string& op, const std::vector<ArgTuple>& arguments,
                 const std::vector<TypeTuple>& results, const std::string& source,
                 const std::vector<Region>& regions, Region* into) {
  const std::string place = source.empty() ? "" : " (at " + source + ")";
  if (!lower::has_rule(op)) fail(Code::kUnsupported, op, place, " has no lowering rule");
  std::vector<NamedArg> args;
  for (const ArgTuple& a : arguments) {
    try {
      args.push_back({std::get<0>(a), to_arg(graph, op, a)});
    } catch (const Error& e) {
      fail(e.code(), op, place, ", argument ", std::get<0>(a), ": ", e.what());
    }
  }
  std::vector<SymType> types;
  for (const TypeTuple& t : results) types.push_back(to_type(t));
  return graph.add_node(op, std::move(args), std::move(types), source, regions, into);
}

void add_output(Graph& graph, Output output) {
  if (output.kind == Output::Kind::kValue &&
      (output.value < 0 || output.value >= graph.num_values)) {
    fail(Code::kInvalid, "an output is the value %", output.value, ", which doesn't exist");
  }
  const bool reads_input =
      output.kind == Output::Kind::kInput || output.kind == Output::Kind::kView;
  if (reads_input &&
      (output.input < 0 || output.input >= static_cast<int32_t>(graph.inputs.size()))) {
    fail(Code::kInvalid, "an output is of input ", output.input, ", which doesn't exist");
  }
  const bool reads_output =
      output.kind == Output::Kind::kPart || output.kind == Output::Kind::kSame;
  if (reads_output && output.output < 0) {
    fail(Code::kInvalid, "an output is of output ", output.output, ", which doesn't exist");
  }
  graph.outputs.push_back(std::move(output));
}

// Ends the outputs.
void mark_weights(Graph& graph, const std::vector<size_t>& inputs) {
  for (const size_t i : inputs) {
    if (i >= graph.inputs.size()) fail(Code::kInvalid, "there is no input ", i);
    graph.inputs[i].is_weight = true;
  }
}

void hide_outputs(Graph& graph, int32_t count) {
  graph.num_hidden = count;
  const auto size = static_cast<int32_t>(graph.outputs.size());
  for (int32_t i = 0; i < size; ++i) {
    const Output& o = graph.outputs[i];
    const bool is_part = o.kind == Output::Kind::kPart;
    if (is_part && (o.output >= size || graph.outputs[o.output].kind != Output::Kind::kValue)) {
      fail(Code::kInvalid, "output ", i, " is a part of output ", o.output,
           ", which has no memory");
    }
    if (o.kind == Output::Kind::kSame && o.output >= i) {
      fail(Code::kInvalid, "output ", i, " is the same as output ", o.output, ", a later one");
    }
  }
}

Size make_size(ExprId expr, nb::handle hint) {
  if (PyFloat_Check(hint.ptr())) {
    return Size::symbolic(expr, static_cast<int64_t>(PyFloat_AS_DOUBLE(hint.ptr())));
  }
  return Size::symbolic(expr, to_int(hint));
}

void bind_building(nb::class_<Graph>& graph) {
  graph
      .def(
          "expr_int", [](Graph& g, nb::handle v) { return g.exprs.add_int(to_int(v)); },
          nb::arg("value"))
      .def(
          "expr_float", [](Graph& g, double v) { return g.exprs.add_float(v); }, nb::arg("value"))
      .def(
          "expr_symbol", [](Graph& g, const std::string& n) { return g.exprs.add_symbol(n); },
          nb::arg("name"))
      .def(
          "expr",
          [](Graph& g, const std::string& op, std::vector<ExprId> args) {
            return g.exprs.add(expr_op(op), std::move(args));
          },
          nb::arg("op"), nb::arg("args"))
      .def(
          "add_tensor_input",
          [](Graph& g, std::string n, const std::string& dtype, const nb::sequence& dims,
             const nb::sequence& strides, const nb::object& offset) {
            const int32_t i =
                g.add_tensor_input(std::move(n), to_type({dtype, dims, strides, offset}));
            return g.inputs[i].value;
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("dims"), nb::arg("strides"), nb::arg("offset"))
      .def(
          "add_number_input",
          [](Graph& g, std::string n, nb::handle size) {
            return g.add_number_input(std::move(n), to_size(size));
          },
          nb::arg("name"), nb::arg("size"))
      .def("add_draw", &Graph::add_draw)
      .def("add_node", &add_node, nb::arg("op"), nb::arg("args"), nb::arg("results"),
           nb::arg("source"), nb::arg("regions") = std::vector<Region>(),
           nb::arg("into").none() = nullptr)
      .def(
          "add_parameter",
          [](Graph& g, Region& region, const TypeTuple& type) {
            return g.add_parameter(region, to_type(type));
          },
          nb::arg("region"), nb::arg("type"));
}

void bind_outputs(nb::class_<Graph>& graph) {
  using Kind = Output::Kind;
  graph
      .def(
          "add_output_value",
          [](Graph& g, ValueId value, const TypeTuple& type) {
            add_output(g, {Kind::kValue, value, -1, to_type(type), {}, -1});
          },
          nb::arg("value"), nb::arg("type"))
      .def(
          "add_output_input",
          [](Graph& g, int32_t input) { add_output(g, {Kind::kInput, 0, input, {}, {}, -1}); },
          nb::arg("input"))
      .def(
          "add_output_view",
          [](Graph& g, int32_t input, const TypeTuple& type) {
            add_output(g, {Kind::kView, 0, input, to_type(type), {}, -1});
          },
          nb::arg("input"), nb::arg("type"))
      .def(
          "add_output_part",
          [](Graph& g, int32_t output, const TypeTuple& type) {
            add_output(g, {Kind::kPart, 0, -1, to_type(type), {}, output});
          },
          nb::arg("output"), nb::arg("type"))
      .def(
          "add_output_same",
          [](Graph& g, int32_t output) { add_output(g, {Kind::kSame, 0, -1, {}, {}, output}); },
          nb::arg("output"))
      .def("hide_outputs", &hide_outputs, nb::arg("count"))
      .def("mark_weights", &mark_weights, nb::arg("inputs"))
      .def(
          "add_output_number",
          [](Graph& g, nb::handle value) {
            const auto number = to_number(g, value);
            if (!number) {
              fail(Code::kInvalid, "expected a number or a Size, got ", class_name(value));
            }
            add_output(g, {Kind::kNumber, 0, -1, {}, number->scalar, -1});
          },
          nb::arg("value"))
      .def(
          "add_mutation",
          [](Graph& g, int32_t input, ValueId value) { g.add_mutation({input, value}); },
          nb::arg("input"), nb::arg("value"))
      .def("add_output_none", [](Graph& g) { add_output(g, {}); });
}

Graph from_bytes(const nb::bytes& content) {
  Graph graph = graph_from_bytes({content.c_str(), content.size()});
  for (const Node& node : graph.nodes) {
    if (!lower::has_rule(node.op)) fail(Code::kUnsupported, node.op, " has no lowering rule");
  }
  return graph;
}

// The number outputs, for values of the symbols in their order.
std::vector<nb::object> evaluate(const Graph& graph, const std::vector<int64_t>& symbols) {
  if (symbols.size() != graph.exprs.symbols().size()) {
    fail(Code::kInvalid, "the graph has ", graph.exprs.symbols().size(), " symbols, got ",
         symbols.size(), " values");
  }
  std::vector<nb::object> values;
  for (const Output& output : graph.outputs) {
    const Scalar& s = output.number;
    const Number n = s.expr < 0 ? s.number : graph.exprs.evaluate(s.expr, symbols);
    values.push_back(n.is_float ? nb::cast(n.f) : nb::cast(n.i));
  }
  return values;
}

std::string kind_name(const Output& output) {
  constexpr std::array<const char*, 7> kNames = {"value", "input",  "view", "part",
                                                 "same",  "number", "none"};
  return kNames.at(static_cast<size_t>(output.kind));
}

void bind_storing(nb::class_<Graph>& graph) {
  graph
      .def("to_bytes",
           [](const Graph& g) {
             const std::string content = to_bytes(g);
             return nb::bytes(content.data(), content.size());
           })
      .def_static("from_bytes", &from_bytes, nb::arg("content"))
      .def("evaluate", &evaluate, nb::arg("symbols"))
      .def("symbols", [](const Graph& g) { return g.exprs.symbols(); })
      .def("output_kinds", [](const Graph& g) {
        std::vector<std::string> kinds;
        for (const Output& output : g.outputs) kinds.push_back(kind_name(output));
        kinds.resize(kinds.size() - static_cast<size_t>(g.num_hidden));
        return kinds;
      });
}

}  // namespace

void bind_graph(nb::module_& m) {
  nb::class_<Size>(m, "Size").def(
      "__init__",
      [](Size* self, ExprId expr, nb::handle hint) { new (self) Size(make_size(expr, hint)); },
      nb::arg("expr"), nb::arg("hint"));
  nb::class_<ValueRef>(m, "ValueRef")
      .def(
          "__init__", [](ValueRef* self, ValueId id) { new (self) ValueRef{id}; }, nb::arg("id"))
      .def_ro("id", &ValueRef::id);
  nb::class_<DTypeArg>(m, "DType")
      .def(
          "__init__",
          [](DTypeArg* self, const std::string& dtype) {
            new (self) DTypeArg{dtype_of_name(dtype)};
          },
          nb::arg("name"));
  nb::class_<Region>(m, "Region").def(nb::init<>()).def_rw("results", &Region::results);
  nb::class_<Graph> graph(m, "Graph");
  graph.def(nb::init<>()).def("__str__", [](const Graph& g) { return print(g); });
  bind_building(graph);
  bind_outputs(graph);
  bind_storing(graph);

  m.attr("GRAPH_VERSION") = kGraphVersion;
  m.def("has_rule", &lower::has_rule, nb::arg("op"));
  m.def("ops", &lower::ops);
  m.def(
      "is_value",
      [](const std::string& op, const std::string& argument, bool is_number_type,
         const nb::object& number) {
        const auto known = to_number(Graph(), number);
        return lower::is_value(op, argument, is_number_type,
                               known ? &known->scalar.number : nullptr);
      },
      nb::arg("op"), nb::arg("argument"), nb::arg("is_number_type"),
      nb::arg("number").none() = nb::none());
}

}  // namespace torch_pjrt::python
