// How a tensor lies in its storage: dtype, sizes, strides and offset.
#pragma once

#include <ATen/DimVector.h>
#include <ATen/core/Tensor.h>

#include <string>

#include "base/type.h"
#include "graph/graph.h"

namespace torch_pjrt::lazy {

struct Geometry {
  DType dtype = DType::kF32;
  at::DimVector dims;
  at::DimVector strides;  // in elements of dtype
  int64_t offset = 0;

  bool operator==(const Geometry& other) const {
    return dtype == other.dtype && offset == other.offset && dims == other.dims &&
           strides == other.strides;
  }
  int64_t num_elements() const;
  // Elements of the storage from its begin up to the last that the tensor reads.
  int64_t extent() const;
  // Dense without overlap, from the storage's begin.
  bool is_whole() const;
  Type type() const { return {dtype, Dims(dims.begin(), dims.end())}; }
  SymType sym_type() const;
  // Appends bytes that are equal for equal geometries alone.
  void append_to(std::string& key) const;
  // The same of the tensor's.
  static void append_to(std::string& key, const c10::TensorImpl& tensor);

  static Geometry of(const c10::TensorImpl& tensor);
  static Geometry of(const SymType& type);  // concrete sizes
  static Geometry flat(DType dtype, int64_t size);
};

}  // namespace torch_pjrt::lazy
