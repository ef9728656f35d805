// The memory that this process holds.
#pragma once

#include <cstdint>

namespace torch_pjrt {

// Bytes of the process in main memory; 0 where the system doesn't tell.
int64_t resident_bytes();

// What has been freed, by any thread, goes back to the system.
void release_free_memory();

}  // namespace torch_pjrt
