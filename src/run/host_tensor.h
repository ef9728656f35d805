// A tensor in host memory that is someone else's.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace torch_pjrt::run {

struct HostTensor {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  std::span<const int64_t> dims;
  std::span<const int64_t> strides;  // in elements
};

}  // namespace torch_pjrt::run
