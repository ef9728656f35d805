// Error as Python sees it: torch_pjrt.Error, a RuntimeError with the attribute `code`, and its
// subclass for want of memory, which is torch.OutOfMemoryError too.
#include "python/bind.h"
#include "python/error.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

// Never given up: the exceptions may outlive the module.
PyObject* general_type = nullptr;
PyObject* out_of_memory_type = nullptr;

PyObject* make_type(const char* type_name, const nb::object& bases, const char* doc,
                    const char* code) {
  nb::dict members;
  members["__doc__"] = doc;
  members["code"] = code;
  PyObject* type = PyErr_NewException(type_name, bases.ptr(), members.ptr());
  if (!type) throw nb::python_error();
  return type;
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    set_error(error);
  }
}

}  // namespace

void set_error(const Error& error) {
  const nb::handle error_type(error.code() == Code::kOutOfMemory ? out_of_memory_type
                                                                 : general_type);
  nb::object object = error_type(error.what());
  object.attr("code") = name(error.code());
  PyErr_SetObject(error_type.ptr(), object.ptr());
}

void bind_error(nb::module_& m) {
  // Its code is that of an error which Python code makes.
  general_type = make_type("torch_pjrt.Error", nb::borrow(PyExc_RuntimeError),
                           "What torch-pjrt raises. `code` is 'unsupported', 'invalid', 'plugin', "
                           "'out_of_memory', 'io', 'not_compiled' or 'internal'.",
                           name(Code::kInternal));
  const nb::object torchs = nb::module_::import_("torch").attr("OutOfMemoryError");
  out_of_memory_type =
      make_type("torch_pjrt.OutOfMemoryError", nb::make_tuple(nb::borrow(general_type), torchs),
                "An Error: the device has no memory left.", name(Code::kOutOfMemory));
  m.attr("Error") = nb::borrow(general_type);
  m.attr("OutOfMemoryError") = nb::borrow(out_of_memory_type);
  nb::register_exception_translator(translate, nullptr);
}

}  // namespace torch_pjrt::python
