#include "base/config.h"

#include <cstdlib>

namespace torch_pjrt::config {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string plugin_path() { return variable("TORCH_PJRT_PLUGIN"); }
std::string xla_flags() { return variable("XLA_FLAGS"); }

}  // namespace torch_pjrt::config
