// Python's tensors to PyTorch's C++ ones and back.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compile/program.h"
#include "torch/held.h"

namespace at {
class Tensor;
}

namespace torch_pjrt::python {

bool is_tensor(PyObject* object);

// Where a tensor's elements lie, in elements; it refers to the tensor's own numbers.
struct Layout {
  std::span<const int64_t> dims;
  std::span<const int64_t> strides;
  int64_t offset;
};
// Throws Error(kInvalid) for a tensor without strides.
Layout layout_of(PyObject* tensor);

// A new 0-d tensor, float64.
PyObject* float_tensor(double value);

// Calls the program by the boxed convention: takes a list of tensors and ints, which it clears, and
// returns a new list. After an exception the list is as it was. Null with Python's exception set
// where PyTorch's code raised, or values that eager doesn't take either did.
PyObject* call_boxed(compile::Program& program, PyObject* list);

// aten::store() for a list of tensors and ints, which stays as it is: a tuple of two bytes.
PyObject* store_boxed(compile::Program& program, PyObject* list);

// Has the program for a call with this list compiled by the Warmup's threads; runs nothing.
void queue_boxed(compile::Program& program, PyObject* list, compile::Warmup& warmup);
// lazy::synchronize(); false with Python's error set where PyTorch's code raised.
bool synchronize();

// Whether nothing but the list holds the tensor at `position`, or its memory. False for what is no
// tensor.
bool holds_alone(PyObject* list, size_t position);

// Throws Python's error, which is set, in the form that PyTorch's bindings hand on.
[[noreturn]] void raise_set_error();

// The tensors of a list.
std::vector<at::Tensor> unpack_tensors(PyObject* list);

// The lazy device's default generator, as a new reference to a torch.Generator.
PyObject* wrap_default_generator();

// Of a tensor on the lazy device: another number once it was written to, whoever wrote, as long as
// its old value is alive.
uintptr_t value_id(PyObject* tensor);

// lazy::address_of() of a tensor on the lazy device; false with Python's error set where PyTorch's
// code raised.
bool address_of(PyObject* tensor, uintptr_t& address);

// aten::align() of a list of tensors.
void align_list(PyObject* list);

// aten::Held of a list of tensors.
std::unique_ptr<aten::Held> held_list(PyObject* list, size_t parameters);

// Whether any object of a list is a tensor that is held.
bool held_contains(const aten::Held& held, PyObject* list);

}  // namespace torch_pjrt::python
