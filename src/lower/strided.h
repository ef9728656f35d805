// Views that differ in where they start alone, which can then be a value.
#pragma once

#include <cstdint>

#include "base/type.h"

namespace torch_pjrt::lower {

// Whether as_strided and as_strided_scatter take the offset of this view of a dense tensor, from
// its first element, as a value ("place"): then one program serves all such offsets.
bool is_window(const Dims& self_dims, const Dims& self_strides, const Dims& sizes,
               const Dims& strides, int64_t offset);

}  // namespace torch_pjrt::lower
