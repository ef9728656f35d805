// Error as Python sees it: torch_pjrt.Error, a RuntimeError with the attribute `code`.
#include "base/error.h"
#include "python/bind.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

void translate(const std::exception_ptr& pointer, void* type) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const nb::handle error_type(static_cast<PyObject*>(type));
    nb::object object = error_type(error.what());
    object.attr("code") = name(error.code());
    PyErr_SetObject(error_type.ptr(), object.ptr());
  }
}

}  // namespace

void bind_error(nb::module_& m) {
  nb::dict members;
  members["__doc__"] =
      "What torch-pjrt raises. `code` is 'unsupported', 'invalid', 'plugin', 'io' or 'internal'.";
  members["code"] = name(Code::kInternal);  // of an error that Python code makes
  PyObject* type = PyErr_NewException("torch_pjrt.Error", PyExc_RuntimeError, members.ptr());
  if (!type) throw nb::python_error();
  m.attr("Error") = nb::steal(type);
  nb::register_exception_translator(translate, type);
}

}  // namespace torch_pjrt::python
