// The memory of the user's tensors: where it lies, and what had to be copied for that.
#include <nanobind/stl/string.h>

#include <utility>
#include <vector>

#include "pjrt/host_memory.h"
#include "python/bind.h"
#include "python/tensor_cast.h"
#include "torch/runtime.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

// Called with what each program had to copy; read and written with the GIL. Never given up at exit,
// when there may be no interpreter to do so.
PyObject* copies_callable = nullptr;

// Runs at the end of a call, with the GIL; what Python raises is what the call raises.
void report_copies(const std::vector<compile::CopiedInput>& inputs) {
  nb::list list;
  for (const compile::CopiedInput& input : inputs) {
    list.append(nb::make_tuple(input.name, run::name(input.reason)));
  }
  nb::borrow(copies_callable)(list);
}

void set_copy_report(nb::object callable) {
  PyObject* old = std::exchange(copies_callable, callable.release().ptr());
  aten::runtime().copies().set(report_copies);
  Py_XDECREF(old);
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.attr("HOST_ALIGNMENT") = pjrt::kHostAlignment;
  m.def("align", [](nb::handle tensors) { align_list(tensors.ptr()); }, nb::arg("tensors"));
  m.def("set_copy_report", &set_copy_report, nb::arg("callable"));
}

}  // namespace torch_pjrt::python
