// An Error as Python's exception.
#pragma once

#include "base/error.h"

namespace torch_pjrt::python {

// Sets torch_pjrt.Error, or its subclass, as Python's error. With the GIL.
void set_error(const Error& error);

}  // namespace torch_pjrt::python
