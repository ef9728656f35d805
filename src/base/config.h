// What the environment says: the only place that reads it, or adds to it.
#pragma once

#include <cstdint>
#include <string>

namespace torch_pjrt::config {

// TORCH_PJRT_PLUGIN: path of the plugin to use where the program names none; empty if not set.
std::string plugin_path();

// XLA_FLAGS, which a plugin made from XLA reads; part of every program's key.
std::string xla_flags();

// PJRT_NPROC and NPROC, by which XLA's CPU client sizes its thread pool.
std::string threads();

// TF_CPP_MIN_LOG_LEVEL, unless it is set: XLA then says nothing on stderr that is no warning. To be
// called before a plugin made from XLA is loaded.
void quieten_xla();

// Folder of the programs that outlive the process: TORCH_PJRT_CACHE_DIR, else torch_pjrt in the
// user's cache folder (XDG_CACHE_HOME, else ~/.cache). Empty if TORCH_PJRT_CACHE is 0, or there is
// no such folder.
std::string cache_folder();

// TORCH_PJRT_CACHE_SHARED_DIR: a folder of programs that is read and never written to, looked at
// after the own one; empty if not set.
std::string shared_cache_folder();

// TORCH_PJRT_CACHE_MAX_BYTES, else 4 GiB. Throws Error(kInvalid) for what isn't a number.
int64_t cache_max_bytes();

// TORCH_PJRT_MAX_PROGRAM_BYTES, else 4 GiB: of compiled programs in memory. Throws Error(kInvalid)
// for what isn't a number.
int64_t max_program_bytes();

// TORCH_PJRT_DEBUG=lines: errors of what was recorded on the device name the user's lines.
bool wants_lines();

}  // namespace torch_pjrt::config
