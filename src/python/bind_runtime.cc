// What concerns the whole process: counters, the log, plugins, the end.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/bind.h"
#include "python/gil.h"
#include "torch/runtime.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

nb::dict stats() {
  const run::Counts counts = aten::runtime().stats().snapshot();
  nb::dict d;
  d["captures"] = counts.captures;
  d["lowerings"] = counts.lowerings;
  d["compiles"] = counts.compiles;
  d["executions"] = counts.executions;
  d["memory_hits"] = counts.memory_hits;
  d["disk_hits"] = counts.disk_hits;
  d["warmups"] = counts.warmups;
  d["evictions"] = counts.evictions;
  d["disk_faults"] = counts.disk_faults;
  d["host_to_device_bytes"] = counts.host_to_device_bytes;
  d["device_to_host_bytes"] = counts.device_to_host_bytes;
  d["copied_inputs"] = counts.copied_inputs;
  d["donated_inputs"] = counts.donated_inputs;
  d["relaid_inputs"] = counts.relaid_inputs;
  d["relaid_bytes"] = counts.relaid_bytes;
  d["fallbacks"] = counts.fallbacks;
  d["programs"] = aten::runtime().programs().size();
  d["program_bytes"] = aten::runtime().programs().num_bytes();
  return d;
}

// Where the log goes; read and written with the GIL. Never given up at exit, when there may be no
// interpreter to do so.
PyObject* log_callable = nullptr;

void write_log(const std::string& kind, const std::string& text) {
  const ThreadGil gil;
  if (!gil || !log_callable) return;
  const nb::object callable = nb::borrow(log_callable);
  try {
    callable(kind, text);
  } catch (nb::python_error& error) {
    // A fault in the log is reported and fails no compile.
    error.restore();
    PyErr_WriteUnraisable(callable.ptr());
  }
}

void set_log(nb::object callable, bool wants_all) {
  PyObject* old = log_callable;
  log_callable = callable.is_none() ? nullptr : callable.release().ptr();
  aten::runtime().log().set(log_callable ? write_log : compile::Log::Sink(), wants_all);
  Py_XDECREF(old);
}

nb::dict plugin_info(const std::string& path) {
  const compile::Device* device = nullptr;
  {
    Gil gil;
    gil.release();
    device = &aten::runtime().device(path);
  }
  const pjrt::Client& client = device->client();
  const pjrt::Api& api = client.plugin().api();
  nb::dict attributes;
  for (const auto& [name, value] : client.plugin().attributes()) {
    attributes[name.c_str()] = value;
  }
  nb::dict d;
  d["path"] = client.plugin().path();
  d["api_version"] = nb::make_tuple(api.major(), api.minor());
  d["platform_name"] = client.platform_name();
  d["platform_version"] = client.platform_version();
  d["device_kind"] = client.device_kind();
  d["device_count"] = client.device_count();
  d["attributes"] = attributes;
  return d;
}

nb::list compiles() {
  nb::list list;
  for (const compile::CompileRecord& record : aten::runtime().history().records()) {
    list.append(nb::make_tuple(record.source, record.guard, record.changes));
  }
  return list;
}

void set_max_program_bytes(int64_t bytes) {
  Gil gil;
  gil.release();  // what leaves is destroyed here
  aten::runtime().programs().set_max_bytes(bytes);
}

}  // namespace

void bind_runtime(nb::module_& m) {
  m.def("stats", &stats);
  m.def("reset_stats", [] { aten::runtime().stats().reset(); });
  m.def("count_capture", [] { aten::runtime().stats().add(&run::Stats::captures); });
  m.def(
      "count_fallbacks",
      [](int64_t ops) { aten::runtime().stats().add(&run::Stats::fallbacks, ops); },
      nb::arg("ops"));
  m.def(
      "count_donated",
      [](int64_t tensors) { aten::runtime().stats().add(&run::Stats::donated_inputs, tensors); },
      nb::arg("tensors"));
  m.def("compiles", &compiles);
  m.def("set_max_program_bytes", &set_max_program_bytes, nb::arg("bytes"));
  m.def("set_log", &set_log, nb::arg("callable").none(), nb::arg("wants_all") = true);
  m.def("plugin_info", &plugin_info, nb::arg("path"));
  m.def("shutdown", &shut_down);
  nb::module_::import_("atexit").attr("register")(m.attr("shutdown"));
}

}  // namespace torch_pjrt::python
