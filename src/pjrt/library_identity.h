// What tells one build of a shared library from another.
#pragma once

#include <string>
#include <string_view>

namespace torch_pjrt::pjrt {

// The GNU build-id of the loaded library that `address` is in, in hex; empty if it has none.
std::string build_id(const void* address);

// Size and 64-bit hash of a library's content, in hex. Not for content of an adversary's making.
std::string content_hash(std::string_view content);

}  // namespace torch_pjrt::pjrt
