#include "compile/entry.h"

#include <algorithm>

namespace torch_pjrt::compile {
namespace {

bool same_shape(const run::HostTensor& tensor, const int64_t* dims, const int64_t* strides) {
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    // Strides of dims of size 1 say nothing.
    if (tensor.dims[d] != dims[d] || (tensor.strides[d] != strides[d] && dims[d] != 1)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool matches(const Entry& entry, std::span<const Argument> arguments, lower::Precision precision) {
  if (entry.precision != precision) return false;
  const int64_t* shape = entry.shapes.data();
  for (const Entry::Tensor& expected : entry.tensors) {
    const Argument& a = arguments[expected.input];
    const auto rank = static_cast<size_t>(expected.rank);
    if (!a.is_tensor || a.tensor.dtype != expected.dtype || a.tensor.dims.size() != rank ||
        !same_shape(a.tensor, shape, shape + rank)) {
      return false;
    }
    shape += 2 * rank;
  }
  const auto is_int = [&](int32_t input) { return !arguments[input].is_tensor; };
  return std::ranges::all_of(entry.free, is_int) &&
         std::ranges::all_of(entry.numbers, [&](const Entry::Number& n) {
           return is_int(n.input) && arguments[n.input].number == n.value;
         });
}

}  // namespace torch_pjrt::compile
