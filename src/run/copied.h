// An input that couldn't be passed as it lies in memory.
#pragma once

#include <cstdint>

namespace torch_pjrt::run {

enum class CopyReason : uint8_t {
  kLazy,          // it is conjugated, negated or zero in name only
  kNotDense,      // its elements have gaps between them or share memory
  kNotAligned,    // its address isn't a multiple of pjrt::kHostAlignment
  kOverlaps,      // it is written to, and its memory overlaps that of another input
  kDeviceMemory,  // the plugin has memory of its own
};

struct Copied {
  int32_t input = 0;
  CopyReason reason = CopyReason::kNotDense;
};

constexpr const char* name(CopyReason reason) {
  switch (reason) {
    case CopyReason::kLazy:
      return "lazy";
    case CopyReason::kNotDense:
      return "not dense";
    case CopyReason::kNotAligned:
      return "not aligned";
    case CopyReason::kOverlaps:
      return "overlaps";
    case CopyReason::kDeviceMemory:
      return "device memory";
  }
  return "";
}

}  // namespace torch_pjrt::run
