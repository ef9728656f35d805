#include "pjrt/element_type.h"

#include <array>

namespace torch_pjrt::pjrt {
namespace {

// In the order of DType.
constexpr std::array<PJRT_Buffer_Type, kNumDTypes> kTypes = {
    PJRT_Buffer_Type_PRED, PJRT_Buffer_Type_U8,  PJRT_Buffer_Type_S8,  PJRT_Buffer_Type_S16,
    PJRT_Buffer_Type_S32,  PJRT_Buffer_Type_S64, PJRT_Buffer_Type_F16, PJRT_Buffer_Type_BF16,
    PJRT_Buffer_Type_F32,  PJRT_Buffer_Type_F64, PJRT_Buffer_Type_C64, PJRT_Buffer_Type_C128,
};

}  // namespace

PJRT_Buffer_Type to_pjrt(DType dtype) { return kTypes[static_cast<size_t>(dtype)]; }

std::optional<DType> from_pjrt(PJRT_Buffer_Type type) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i] == type) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace torch_pjrt::pjrt
