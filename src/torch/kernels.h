// The device's own kernels: memory, views, copies and reads, which record no op of torch's.
#pragma once

#include <torch/library.h>

namespace torch_pjrt::lazy {

// Into a library of kernels of aten for our dispatch key.
void add_kernels(torch::Library& aten);
// Those of other differentiable ops, also into the library of the key that records gradients.
void add_composed_kernels(torch::Library& aten);

}  // namespace torch_pjrt::lazy
