// Program: a graph that can be called.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "compile/program.h"
#include "graph/serialize.h"
#include "python/bind.h"
#include "python/tensor_cast.h"
#include "torch/runtime.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

pjrt::Override to_override(nb::handle name, nb::handle value) {
  PyObject* p = value.ptr();
  pjrt::Override o{nb::cast<std::string>(name), false};
  if (PyBool_Check(p)) {
    o.value = p == Py_True;
  } else if (PyLong_Check(p)) {
    o.value = nb::cast<int64_t>(value);
  } else if (PyFloat_Check(p)) {
    o.value = PyFloat_AS_DOUBLE(p);
  } else if (PyUnicode_Check(p)) {
    o.value = nb::cast<std::string>(value);
  } else {
    fail(Code::kInvalid, "compile option ", o.name, ": expected a bool, int, float or str, got ",
         Py_TYPE(p)->tp_name);
  }
  return o;
}

std::string to_string(nb::handle bytes) {
  const auto content = nb::cast<nb::bytes>(bytes);
  return {content.c_str(), content.size()};
}

void make_program(compile::Program* self, const Graph& graph, std::string plugin,
                  const nb::dict& overrides, bool disk_cache, bool freeze, const nb::dict& stored,
                  std::string source, std::string guard, bool on_device) {
  compile::Options options{
      std::move(plugin), {}, disk_cache, on_device, freeze, nullptr, std::move(source),
      std::move(guard)};
  if (nb::len(stored) > 0) {
    auto programs = std::make_shared<compile::StoredPrograms>();
    for (const auto [key, bytes] : stored) {
      programs->by_key.emplace(to_string(key), to_string(bytes));
    }
    options.stored = std::move(programs);
  }
  for (const auto [name, value] : overrides) options.overrides.push_back(to_override(name, value));
  new (self) compile::Program(graph, aten::runtime(), std::move(options));
}

}  // namespace

void bind_program(nb::module_& m) {
  // AOTAutograd's boxed convention wants the attribute _boxed_call on the instance.
  nb::class_<compile::Program>(m, "Program", nb::dynamic_attr())
      .def("__init__", &make_program, nb::arg("graph"), nb::arg("plugin"), nb::arg("overrides"),
           nb::arg("disk_cache") = true, nb::arg("freeze") = false, nb::arg("stored") = nb::dict(),
           nb::arg("source") = "", nb::arg("guard") = "", nb::arg("on_device") = false)
      .def(
          "__call__",
          [](compile::Program& program, nb::handle list) {
            if (compile::Warmup* warmup = compile::Warmup::of_thread()) [[unlikely]] {
              queue_boxed(program, list.ptr(), *warmup);
              raise_queued(nb::find(program));
            }
            PyObject* outputs = call_boxed(program, list.ptr());
            if (!outputs) throw nb::python_error();
            return nb::steal(outputs);
          },
          nb::arg("inputs"))
      .def("graph_bytes",
           [](const compile::Program& program) {
             const std::string bytes = to_bytes(program.graph());
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def(
          "store",
          [](compile::Program& program, nb::handle list) {
            return nb::steal(store_boxed(program, list.ptr()));
          },
          nb::arg("inputs"));
  m.def(
      "holds_alone",
      [](const nb::list& list, size_t position) { return holds_alone(list.ptr(), position); },
      nb::arg("list"), nb::arg("position"));
  m.def(
      "refusal",
      [](const Graph& graph) -> std::optional<std::pair<size_t, std::string>> {
        const auto found = compile::refusal(graph);
        if (!found) return std::nullopt;
        return std::pair(found->node(), std::string(found->what()));
      },
      nb::arg("graph"));
  m.def("lower_text", &compile::lower_text, nb::arg("graph"),
        nb::arg("symbols").none() = nb::none());
}

}  // namespace torch_pjrt::python
