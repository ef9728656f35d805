// Our element types as PJRT's, and back: the one place that maps them.
#pragma once

#include <pjrt_c_api.h>

#include <optional>

#include "base/dtype.h"

namespace torch_pjrt::pjrt {

PJRT_Buffer_Type to_pjrt(DType dtype);

// nullopt for an element type that we have no name for, e.g. an 8-bit float.
std::optional<DType> from_pjrt(PJRT_Buffer_Type type);

}  // namespace torch_pjrt::pjrt
