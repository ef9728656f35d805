// The fused steps of Adam and AdamW, of ops that are recorded.
#pragma once

#include <torch/library.h>

namespace torch_pjrt::lazy {

// Into a library of kernels of aten for our dispatch key.
void add_fused_optimizers(torch::Library& aten);

}  // namespace torch_pjrt::lazy
