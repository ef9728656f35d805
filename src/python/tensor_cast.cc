#include "python/tensor_cast.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "python/gil.h"
#include "torch/align.h"
#include "torch/call.h"
#include "torch/device_call.h"
#include "torch/generator.h"
#include "torch/run.h"
#include "torch/storage.h"

namespace torch_pjrt::python {
namespace {

struct Decref {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
using Ref = std::unique_ptr<PyObject, Decref>;

Ref checked(PyObject* object) {
  // What Python's own constructors report is want of memory.
  if (!object) {
    PyErr_Clear();
    throw std::bad_alloc();
  }
  return Ref(object);
}

aten::Argument argument(PyObject* object, Py_ssize_t i) {
  if (THPVariable_Check(object)) return {&THPVariable_Unpack(object), 0};
  if (!PyLong_Check(object)) {
    fail(Code::kInvalid, "input ", i, ": expected a tensor or an int, got ",
         Py_TYPE(object)->tp_name);
  }
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow != 0) fail(Code::kInvalid, "input ", i, ": the int doesn't fit into 64 bits");
  return {nullptr, number};
}

Ref to_bytes(const std::string& content) {
  return checked(
      PyBytes_FromStringAndSize(content.data(), static_cast<Py_ssize_t>(content.size())));
}

struct ToPython {
  PyObject* operator()(std::monostate) const { return Py_NewRef(Py_None); }
  PyObject* operator()(at::Tensor& tensor) const { return THPVariable_Wrap(std::move(tensor)); }
  PyObject* operator()(bool value) const { return PyBool_FromLong(value); }
  PyObject* operator()(int64_t value) const { return PyLong_FromLongLong(value); }
  PyObject* operator()(double value) const { return PyFloat_FromDouble(value); }
};

// The arguments in a list of AOTAutograd's.
struct Boxed {
  explicit Boxed(PyObject* list) {
    if (!PyList_Check(list)) {
      fail(Code::kInvalid, "a program takes one list, got ", Py_TYPE(list)->tp_name);
    }
    held = checked(PyList_AsTuple(list));
    const Py_ssize_t size = PyTuple_GET_SIZE(held.get());
    arguments.reserve(static_cast<size_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i) {
      arguments.push_back(argument(PyTuple_GET_ITEM(held.get(), i), i));
    }
  }

  Ref held;  // keeps the tensors while the GIL is released, whatever becomes of the list
  std::vector<aten::Argument> arguments;
};

// Whether `f` returned; else Python's error is set, as what PyTorch's code threw.
template <class F>
bool succeeds(const F& f) {
  try {
    f();
    return true;
  } catch (const c10::IndexError& error) {
    PyErr_SetString(PyExc_IndexError, error.what_without_backtrace());
  } catch (const c10::LinAlgError& error) {
    const Ref module(PyImport_ImportModule("torch._C"));  // which exports it to Python alone
    const Ref type(module ? PyObject_GetAttrString(module.get(), "_LinAlgError") : nullptr);
    if (type) PyErr_SetString(type.get(), error.what_without_backtrace());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  }
  return false;
}

}  // namespace

void raise_set_error() {
  python_error raised;
  raised.persist();
  throw raised;
}

bool synchronize() {
  return succeeds([] { lazy::synchronize(); });
}

bool is_tensor(PyObject* object) { return THPVariable_Check(object); }

Layout layout_of(PyObject* tensor) {
  const at::Tensor& t = THPVariable_Unpack(tensor);
  if (t.layout() != at::kStrided) {
    fail(Code::kInvalid, "a tensor that isn't dense has no strides: pass tensor.to_dense()");
  }
  const auto dims = t.sizes();
  const auto strides = t.strides();
  return {{dims.data(), dims.size()}, {strides.data(), strides.size()}, t.storage_offset()};
}

PyObject* float_tensor(double value) {
  return THPVariable_Wrap(at::scalar_tensor(value, at::kDouble));
}

void queue_boxed(compile::Program& program, PyObject* list, compile::Warmup& warmup) {
  const Boxed boxed(list);
  Gil gil;
  if (program.on_device()) {
    lazy::queue(program, boxed.arguments, warmup, gil);
  } else {
    aten::queue(program, boxed.arguments, warmup, gil);
  }
}

PyObject* call_boxed(compile::Program& program, PyObject* list) {
  const Boxed boxed(list);
  std::vector<aten::Result> results;
  const bool is_done = succeeds([&] {
    Gil gil;
    results = program.on_device() ? lazy::call(program, boxed.arguments, gil)
                                  : aten::call(program, boxed.arguments, gil);
  });
  if (!is_done) return nullptr;
  Ref outputs = checked(PyList_New(static_cast<Py_ssize_t>(results.size())));
  for (size_t i = 0; i < results.size(); ++i) {
    PyList_SET_ITEM(outputs.get(), static_cast<Py_ssize_t>(i),
                    checked(std::visit(ToPython(), results[i])).release());
  }
  PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr);
  return outputs.release();
}

PyObject* store_boxed(compile::Program& program, PyObject* list) {
  const Boxed boxed(list);
  Gil gil;
  const auto [key, program_bytes] = aten::store(program, boxed.arguments, gil);
  return checked(PyTuple_Pack(2, to_bytes(key).get(), to_bytes(program_bytes).get())).release();
}

bool holds_alone(PyObject* list, size_t position) {
  if (position >= static_cast<size_t>(PyList_GET_SIZE(list))) return false;
  PyObject* object = PyList_GET_ITEM(list, static_cast<Py_ssize_t>(position));
  if (!THPVariable_CheckExact(object) || Py_REFCNT(object) != 1) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return tensor.has_storage() && tensor.use_count() == 1 && tensor.weak_use_count() == 1 &&
         tensor.storage().use_count() == 1;
}

std::vector<at::Tensor> unpack_tensors(PyObject* list) {
  if (!PyList_Check(list)) {
    fail(Code::kInvalid, "expected a list of tensors, got ", Py_TYPE(list)->tp_name);
  }
  std::vector<at::Tensor> tensors;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* object = PyList_GET_ITEM(list, i);
    if (!THPVariable_Check(object)) {
      fail(Code::kInvalid, "expected a list of tensors, got a ", Py_TYPE(object)->tp_name);
    }
    tensors.push_back(THPVariable_Unpack(object));
  }
  return tensors;
}

PyObject* wrap_default_generator() { return THPGenerator_Wrap(lazy::default_generator()); }

uintptr_t value_id(PyObject* tensor) {
  if (!THPVariable_Check(tensor) || !lazy::is_on_device(THPVariable_Unpack(tensor))) {
    fail(Code::kInvalid, "expected a tensor on device pjrt, got a ", Py_TYPE(tensor)->tp_name);
  }
  const std::lock_guard lock(lazy::mutex());
  return reinterpret_cast<uintptr_t>(
      lazy::storage_of(THPVariable_Unpack(tensor)).value().node.get());
}

bool address_of(PyObject* tensor, uintptr_t& address) {
  const at::Tensor& t = THPVariable_Unpack(tensor);
  if (!lazy::is_on_device(t) || t.key_set().has(c10::DispatchKey::Python)) {
    fail(Code::kInvalid, "expected a tensor on device pjrt, got a ", Py_TYPE(tensor)->tp_name);
  }
  return succeeds([&] { address = lazy::address_of(t); });
}

void align_list(PyObject* list) {
  const std::vector<at::Tensor> tensors = unpack_tensors(list);
  aten::align(tensors);
}

std::unique_ptr<aten::Held> held_list(PyObject* list, size_t parameters) {
  return std::make_unique<aten::Held>(unpack_tensors(list), parameters);
}

bool held_contains(const aten::Held& held, PyObject* list) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* object = PyList_GET_ITEM(list, i);
    if (THPVariable_Check(object) && held.contains(THPVariable_Unpack(object))) return true;
  }
  return false;
}

}  // namespace torch_pjrt::python
