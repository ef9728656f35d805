// A compiled program as bytes, for another process.
#pragma once

#include <string>
#include <string_view>

#include "lower/lower.h"

namespace torch_pjrt::compile {

struct Stored {
  lower::Program program;  // without its text
  std::string executable;  // as the plugin serialised it
};

// Raised whenever the bytes of a Stored change; part of every program's key.
inline constexpr int kStoredVersion = 1;

std::string to_bytes(const Stored& stored);
// Throws Error(kIo) for bytes that to_bytes() can't have given.
Stored from_bytes(std::string_view bytes);

}  // namespace torch_pjrt::compile
