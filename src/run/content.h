// What lies in memory, as numbers that tell whether it is still the same.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "run/workers.h"

namespace torch_pjrt::run {

// A 64-bit hash of each of `memory`, whatever the number of threads. A change of one part of it is
// always seen but for 1 in 2^64.
std::vector<uint64_t> hashes(std::span<const std::string_view> memory, Workers& workers);

}  // namespace torch_pjrt::run
