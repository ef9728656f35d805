#include "base/type.h"

#include <algorithm>
#include <numeric>

namespace torch_pjrt {

int64_t Type::num_elements() const {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

std::string to_string(const Type& type) { return name(type.dtype) + to_string(type.dims); }

Dims dense_strides(const Dims& dims, const std::vector<int64_t>& order) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    strides[*it] = step;
    step *= std::max<int64_t>(dims[*it], 1);
  }
  return strides;
}

Dims contiguous_strides(const Dims& dims) {
  std::vector<int64_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  return dense_strides(dims, order);
}

}  // namespace torch_pjrt
