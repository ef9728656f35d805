// Whether a plugin's memory is the host's, found by trying.
#pragma once

#include <cstddef>

namespace torch_pjrt::pjrt {

class Client;

// Memory handed over without a copy has to be aligned to this, in bytes; where it isn't, XLA's CPU
// plugins copy without a word. Whether a buffer aliases is asked of its pointer.
inline constexpr size_t kHostAlignment = 64;

struct HostMemory {
  // A zero-copy buffer is the caller's memory.
  bool zero_copy_in = false;
  // A donated argument made from the caller's mutable memory is where the output is written, though
  // the program doesn't read that argument.
  bool donated_out = false;
};

// Compiles and runs a small program. A plugin that lacks or refuses a step answers false.
HostMemory probe_host_memory(const Client& client);

}  // namespace torch_pjrt::pjrt
