// PyTorch's tensors as host memory, and memory as PyTorch's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/type.h"
#include "run/host_tensor.h"

namespace torch_pjrt::aten {

// Throws Error(kUnsupported) for a dtype that we don't have.
DType from_torch(at::ScalarType dtype);
at::ScalarType to_torch(DType dtype);

// A plain CPU tensor whose memory says all: throws Error(kUnsupported) for a tensor of another
// device, layout or kind; a conjugation, negation or zeros that are only noted are carried out
// in dense memory of their own.
at::Tensor plain(const at::Tensor& tensor);
// Whether plain() gives the tensor itself.
bool is_plain(const at::Tensor& tensor);

// Its memory, whether dense or not; valid while the tensor lives and isn't resized. Throws
// Error(kInvalid) if its storage is too small for it.
run::HostTensor host_tensor(const at::Tensor& tensor);

// An ordinary CPU tensor, uninitialised.
at::Tensor empty(const Dims& dims, const Dims& strides, DType dtype);

}  // namespace torch_pjrt::aten
