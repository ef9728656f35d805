// Python's tensors to PyTorch's C++ ones and back.
#pragma once

#include <Python.h>

#include "compile/program.h"

namespace torch_pjrt::python {

// Calls the program by the boxed convention: takes a list of tensors and ints, which it clears, and
// returns a new list. After an exception the list is as it was. Null with Python's exception set
// where PyTorch's code raised, or values that eager doesn't take either did.
PyObject* call_boxed(compile::Program& program, PyObject* list);

// aten::store() for a list of tensors and ints, which stays as it is: a tuple of two bytes.
PyObject* store_boxed(compile::Program& program, PyObject* list);

// Has the program for a call with this list compiled by the Warmup's threads; runs nothing.
void queue_boxed(compile::Program& program, PyObject* list, compile::Warmup& warmup);

// aten::align() of a list of tensors.
void align_list(PyObject* list);

}  // namespace torch_pjrt::python
