// The one accessor of the process's Runtime.
#pragma once

#include "compile/runtime.h"

namespace torch_pjrt::aten {

// Made at first use, never destroyed: tensors and their deleters may outlive the interpreter.
compile::Runtime& runtime();

// What torch.set_float32_matmul_precision says.
lower::Precision matmul_precision();

}  // namespace torch_pjrt::aten
