// The lazy device, as Python registers and drives it.
#include <nanobind/stl/complex.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>

#include "base/config.h"
#include "base/error.h"
#include "python/bind.h"
#include "python/error.h"
#include "python/gil.h"
#include "python/tensor_cast.h"
#include "torch/array.h"
#include "torch/record.h"
#include "torch/register.h"
#include "torch/run.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

// Never given up at exit, when there may be no interpreter to do so.
struct Callables {
  PyObject* plugin;
  PyObject* trace;
  PyObject* warn;
  PyObject* line;
};
Callables* callables = nullptr;

// The GIL where the calling thread may or may not have it.
class MaybeGil final : public run::HostLock {
 public:
  MaybeGil() : held_(PyGILState_Check() != 0) {}
  void release() noexcept override {
    if (held_) gil_.release();
  }
  void acquire() noexcept override {
    if (held_) gil_.acquire();
  }
  void check_interrupt() override {
    if (held_) return gil_.check_interrupt();
    const ThreadGil gil;
    if (gil && PyErr_CheckSignals() != 0) throw nb::python_error();
  }

 private:
  bool held_;
  Gil gil_;
};

nb::object to_python(const lazy::TraceArgument& argument);

struct ToPython {
  nb::object operator()(std::monostate) const { return nb::none(); }
  // (dtype, sizes, strides), where dtype is the core's name
  nb::object operator()(const lazy::Geometry& g) const {
    nb::list sizes;
    nb::list strides;
    for (const int64_t d : g.dims) sizes.append(d);
    for (const int64_t s : g.strides) strides.append(s);
    return nb::make_tuple(name(g.dtype), sizes, strides);
  }
  nb::object operator()(const std::vector<lazy::TraceArgument>& items) const {
    nb::list list;
    for (const lazy::TraceArgument& item : items) list.append(to_python(item));
    return list;
  }
  template <class T>
  nb::object operator()(const T& value) const {
    return nb::cast(value);
  }
};

nb::object to_python(const lazy::TraceArgument& argument) {
  return std::visit(ToPython(), argument.v);
}

[[noreturn]] void raise_unavailable() {
  fail(Code::kInternal, "the interpreter ends, or the device isn't registered");
}

lazy::Traced trace(const std::string& op, bool mutates,
                   const std::vector<lazy::TraceArgument>& arguments) {
  const ThreadGil gil;
  if (!gil) raise_unavailable();
  try {
    nb::list list;
    for (const lazy::TraceArgument& a : arguments) list.append(to_python(a));
    const nb::object result = nb::borrow(callables->trace)(op, mutates, list);
    if (nb::isinstance<nb::str>(result)) fail(Code::kUnsupported, nb::cast<std::string>(result));
    lazy::Traced traced;
    traced.graph = nb::cast<const Graph&>(result[0]);
    traced.constants = unpack_tensors(result[1].ptr());
    traced.direct = nb::cast<bool>(result[2]);
    return traced;
  } catch (nb::python_error& error) {
    // Its objects end here, where the GIL is held.
    fail(Code::kUnsupported, error.what());
  }
}

std::string plugin() {
  const ThreadGil gil;
  if (!gil) raise_unavailable();
  return nb::cast<std::string>(nb::borrow(callables->plugin)());
}

void warn(const std::string& op, const std::string& why) {
  const ThreadGil gil;
  if (gil) nb::borrow(callables->warn)(op, why);
}

std::string line() {
  const ThreadGil gil;
  return gil ? nb::cast<std::string>(nb::borrow(callables->line)()) : "";
}

void raise(const std::exception_ptr& exception) {
  const ThreadGil gil;
  if (!gil) return;
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    set_error(error);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (...) {
    return;
  }
  raise_set_error();
}

bool register_device(nb::object plugin_callable, nb::object trace_callable,
                     nb::object warn_callable, nb::object line_callable) {
  callables = new Callables{plugin_callable.release().ptr(), trace_callable.release().ptr(),
                            warn_callable.release().ptr(), line_callable.release().ptr()};
  lazy::Host host;
  host.plugin = plugin;
  host.trace = trace;
  host.warn = warn;
  if (config::wants_lines()) host.line = line;
  host.raise = raise;
  host.lock = [] { return std::make_unique<MaybeGil>(); };
  return lazy::register_device(std::move(host));
}

}  // namespace

void bind_device(nb::module_& m) {
  m.def("register_device", &register_device, nb::arg("plugin"), nb::arg("trace"), nb::arg("warn"),
        nb::arg("line"));
  m.def("default_generator", [] { return nb::steal(wrap_default_generator()); });
  m.def("value_id", [](nb::handle tensor) { return value_id(tensor.ptr()); }, nb::arg("tensor"));
  m.def(
      "address_of",
      [](nb::handle tensor) {
        if (!is_tensor(tensor.ptr())) fail(Code::kInvalid, "expected a tensor");
        uintptr_t address = 0;
        if (!address_of(tensor.ptr(), address)) throw nb::python_error();
        return address;
      },
      nb::arg("tensor"));
  m.def("mark_step", &lazy::run_all);
  m.def("device_memory", [] {
    const lazy::Memory memory = lazy::memory();
    return nb::make_tuple(memory.now, memory.peak);
  });
  m.def("reset_peak_device_memory", &lazy::reset_peak_memory);
  m.def("synchronize", [] {
    if (!synchronize()) throw nb::python_error();
  });
  m.def("host_ops", &lazy::host_ops);
  m.def("reset_host_ops", &lazy::reset_host_ops);
}

}  // namespace torch_pjrt::python
