// Moves the memory of tensors to where programs can use it as it lies.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace torch_pjrt::aten {

// Moves storages so that as many bytes as possible of these tensors begin at multiples of
// pjrt::kHostAlignment. The tensors stay as they are: all tensors over a storage, these or others,
// move with it, and storages of these tensors that overlap keep overlapping. The old memory is
// freed with the new, since others (NumPy, DLPack) may look at it. Leaves alone what isn't plain
// memory of the CPU. Nobody may use the tensors meanwhile.
void align(std::span<const at::Tensor> tensors);

}  // namespace torch_pjrt::aten
