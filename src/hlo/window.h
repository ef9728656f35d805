// The sizes that a window makes.
#pragma once

#include <cstdint>

namespace torch_pjrt::hlo {

// Along one dim.
struct WindowDim {
  int64_t size, stride, low, high, base_dilation, window_dilation;

  bool is_valid() const {
    return size > 0 && stride > 0 && base_dilation > 0 && window_dilation > 0;
  }

  // Number of positions over `dim` elements.
  int64_t positions(int64_t dim) const {
    const int64_t padded = low + (dim == 0 ? 0 : (dim - 1) * base_dilation + 1) + high;
    const int64_t span = (size - 1) * window_dilation + 1;
    return padded < span ? 0 : (padded - span) / stride + 1;
  }
};

}  // namespace torch_pjrt::hlo
