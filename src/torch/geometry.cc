#include "torch/geometry.h"

#include "lower/order.h"
#include "torch/key_bytes.h"
#include "torch/tensor.h"

namespace torch_pjrt::lazy {
namespace {

std::vector<Size> sizes(const at::DimVector& v) { return {v.begin(), v.end()}; }

at::DimVector numbers(const std::vector<Size>& sizes) {
  at::DimVector v;
  for (const Size& s : sizes) v.push_back(s.value);
  return v;
}

}  // namespace

int64_t Geometry::num_elements() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

int64_t Geometry::extent() const {
  int64_t last = offset;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) return 0;
    last += (dims[d] - 1) * strides[d];
  }
  return last + 1;
}

bool Geometry::is_whole() const {
  return offset == 0 &&
         lower::dense_order(Dims(dims.begin(), dims.end()), Dims(strides.begin(), strides.end()));
}

SymType Geometry::sym_type() const { return {dtype, sizes(dims), sizes(strides), offset}; }

void Geometry::append_to(std::string& key) const {
  key.push_back(static_cast<char>(dtype));
  key.push_back(static_cast<char>(dims.size()));
  for (const int64_t d : dims) append(key, d);
  for (const int64_t s : strides) append(key, s);
  append(key, offset);
}

Geometry Geometry::of(const c10::TensorImpl& tensor) {
  return {aten::from_torch(c10::typeMetaToScalarType(tensor.dtype())),
          at::DimVector(tensor.sizes()), at::DimVector(tensor.strides()), tensor.storage_offset()};
}

Geometry Geometry::of(const SymType& type) {
  return {type.dtype, numbers(type.dims), numbers(type.strides), type.offset.value};
}

Geometry Geometry::flat(DType dtype, int64_t size) { return {dtype, {size}, {1}, 0}; }

}  // namespace torch_pjrt::lazy
