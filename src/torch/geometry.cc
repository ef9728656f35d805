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

void append_geometry(std::string& key, DType dtype, at::IntArrayRef dims, at::IntArrayRef strides,
                     int64_t offset) {
  key.push_back(static_cast<char>(dtype));
  key.push_back(static_cast<char>(dims.size()));
  key.append(reinterpret_cast<const char*>(dims.data()), dims.size() * sizeof(int64_t));
  key.append(reinterpret_cast<const char*>(strides.data()), strides.size() * sizeof(int64_t));
  append(key, offset);
}

bool is_contiguous(const Geometry& g) {
  int64_t stride = 1;
  for (size_t d = g.dims.size(); d-- > 0; stride *= g.dims[d]) {
    if (g.dims[d] == 0) return false;
    if (g.dims[d] != 1 && g.strides[d] != stride) return false;
  }
  return true;
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
  if (offset == 0 && is_contiguous(*this)) return true;
  return offset == 0 &&
         lower::dense_order(Dims(dims.begin(), dims.end()), Dims(strides.begin(), strides.end()));
}

SymType Geometry::sym_type() const { return {dtype, sizes(dims), sizes(strides), offset}; }

void Geometry::append_to(std::string& key) const {
  append_geometry(key, dtype, dims, strides, offset);
}

void Geometry::append_to(std::string& key, const c10::TensorImpl& tensor) {
  append_geometry(key, aten::from_torch(c10::typeMetaToScalarType(tensor.dtype())), tensor.sizes(),
                  tensor.strides(), tensor.storage_offset());
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
