#include "torch/runtime.h"

namespace torch_pjrt::aten {

compile::Runtime& runtime() {
  static compile::Runtime& instance = *std::make_unique<compile::Runtime>().release();
  return instance;
}

}  // namespace torch_pjrt::aten
