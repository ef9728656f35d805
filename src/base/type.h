// A tensor's type: element type and concrete dims.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace torch_pjrt {

using Dims = std::vector<int64_t>;

struct Type {
  DType dtype = DType::kF32;
  Dims dims;

  bool operator==(const Type&) const = default;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  // Number of elements; 1 for rank 0.
  int64_t num_elements() const;
  // Size in bytes of a dense tensor of this type.
  int64_t num_bytes() const { return num_elements() * static_cast<int64_t>(byte_size(dtype)); }
};

// E.g. "f32[2,3]".
std::string to_string(const Type& type);

// E.g. "[2,3]".
std::string to_string(const Dims& dims);

// Strides, in elements, of a dense tensor stored with dims in the order `order` (major to minor).
Dims dense_strides(const Dims& dims, const std::vector<int64_t>& order);

// Strides, in elements, of a dense row-major tensor (sizes of 0 count as 1, as PyTorch does).
Dims contiguous_strides(const Dims& dims);

}  // namespace torch_pjrt
