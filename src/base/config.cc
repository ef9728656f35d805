#include "base/config.h"

#include <charconv>
#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace torch_pjrt::config {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int64_t bytes(const char* name, int64_t fallback) {
  const std::string text = variable(name);
  if (text.empty()) return fallback;
  int64_t bytes = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, bytes);
  if (error != std::errc() || stop != end || bytes < 0) {
    fail(Code::kInvalid, name, " is '", text,
         "'; set it to a number of bytes such as 4294967296, or unset it");
  }
  return bytes;
}

}  // namespace

std::string plugin_path() { return variable("TORCH_PJRT_PLUGIN"); }
std::string xla_flags() { return variable("XLA_FLAGS"); }
std::string threads() { return variable("PJRT_NPROC") + " " + variable("NPROC"); }
void quieten_xla() { setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0); }

std::string cache_folder() {
  if (variable("TORCH_PJRT_CACHE") == "0") return "";
  if (std::string folder = variable("TORCH_PJRT_CACHE_DIR"); !folder.empty()) return folder;
  // The XDG specification has a relative path be ignored.
  if (std::string base = variable("XDG_CACHE_HOME"); base.starts_with('/')) {
    return base + "/torch_pjrt";
  }
  const std::string home = variable("HOME");
  return home.starts_with('/') ? home + "/.cache/torch_pjrt" : "";
}

std::string shared_cache_folder() { return variable("TORCH_PJRT_CACHE_SHARED_DIR"); }

int64_t cache_max_bytes() { return bytes("TORCH_PJRT_CACHE_MAX_BYTES", int64_t{4} << 30); }

int64_t max_program_bytes() { return bytes("TORCH_PJRT_MAX_PROGRAM_BYTES", int64_t{4} << 30); }

bool wants_lines() { return variable("TORCH_PJRT_DEBUG") == "lines"; }

}  // namespace torch_pjrt::config
