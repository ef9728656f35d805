// A 64-bit hash of bytes, and bytes as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace torch_pjrt {

// Finds damage, and tells apart what chance has made; not for content of an adversary's making. The
// same in every process on machines of this byte order.
uint64_t hash(std::string_view content);

// Two lower-case hexadecimal digits for each byte, the first byte (of a number the highest) first.
std::string hex(std::string_view bytes);
std::string hex(uint64_t value);

}  // namespace torch_pjrt
