// Whether calls may compile, and compiles ahead of them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"
#include "compile/warmup.h"
#include "python/bind.h"
#include "python/gil.h"
#include "torch/runtime.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;
using compile::Policies;
using compile::Policy;
using compile::Warmup;

constexpr std::array<const char*, 3> kPolicies = {"allow", "warn", "error"};

Policy policy(const std::string& name) {
  for (size_t i = 0; i < kPolicies.size(); ++i) {
    if (name == kPolicies[i]) return static_cast<Policy>(i);
  }
  fail(Code::kInvalid, "there is no compile policy '", name,
       "': it is \"allow\", \"warn\" or \"error\"");
}

std::string name_of(Policy policy) { return kPolicies[static_cast<size_t>(policy)]; }

std::optional<std::string> exchange_thread_policy(const std::optional<std::string>& name) {
  const auto before =
      Policies::exchange_of_thread(name ? std::optional(policy(*name)) : std::nullopt);
  return before ? std::optional(name_of(*before)) : std::nullopt;
}

// Never given up: it may outlive the module.
PyObject* queued_type = nullptr;

}  // namespace

void raise_queued(nb::handle program) {
  PyErr_SetObject(queued_type, program.ptr());
  throw nb::python_error();
}

void bind_warmup(nb::module_& m) {
  m.def("policy", [] { return name_of(aten::runtime().policies().current()); });
  m.def(
      "set_policy", [](const std::string& name) { aten::runtime().policies().set(policy(name)); },
      nb::arg("name"));
  m.def("exchange_thread_policy", &exchange_thread_policy, nb::arg("name").none());

  // No Exception, so that no code between the call and warmup() takes it for an error.
  queued_type = PyErr_NewException("torch_pjrt._C.Queued", PyExc_BaseException, nullptr);
  if (!queued_type) throw nb::python_error();
  m.attr("Queued") = nb::borrow(queued_type);
  nb::class_<Warmup>(m, "Warmup")
      .def(nb::init<size_t>(), nb::arg("workers"))
      .def("begin", [](Warmup& warmup) { Warmup::set_of_thread(&warmup); })
      .def("end", [](Warmup&) { Warmup::set_of_thread(nullptr); })
      .def("cancel", &Warmup::cancel)
      .def_prop_ro("queued", &Warmup::num_queued)
      .def_prop_ro("done", &Warmup::num_done)
      .def("check", &Warmup::check)
      .def(
          "wait",
          [](const Warmup& warmup, int64_t ms) {
            Gil gil;
            gil.release();
            return warmup.wait(std::chrono::milliseconds(ms));
          },
          nb::arg("ms"));
}

}  // namespace torch_pjrt::python
