#include "fake_plugin/modes.h"

#include <mutex>

#include "fake_plugin/error.h"

namespace torch_pjrt::fake {
namespace {

std::mutex mutex;
Modes defaults;

bool set(Modes& modes, std::string_view name, int64_t value) {
  if (value < 0) return false;
  if (name == "devices") {
    modes.devices = value;
  } else if (name == "late_ms") {
    modes.late_ms = value;
  } else if (name == "own_memory" && value <= 1) {
    modes.own_memory = value == 1;
  } else if (name == "strict" && value <= 1) {
    modes.strict = value == 1;
  } else {
    return false;
  }
  return true;
}

bool is_flag(std::string_view name) { return name == "own_memory" || name == "strict"; }

}  // namespace

bool set_default_mode(std::string_view name, int64_t value) {
  const std::lock_guard lock(mutex);
  return set(defaults, name, value);
}

Modes client_modes(const PJRT_Client_Create_Args& args) {
  const std::lock_guard lock(mutex);
  Modes modes = defaults;
  for (size_t i = 0; i < args.num_options; ++i) {
    const PJRT_NamedValue& option = args.create_options[i];
    const std::string_view name(option.name, option.name_size);
    const auto type = is_flag(name) ? PJRT_NamedValue_kBool : PJRT_NamedValue_kInt64;
    const int64_t value = is_flag(name) ? int64_t{option.bool_value} : option.int64_value;
    if (option.type != type || !set(modes, name, value)) {
      fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: no client option '", name,
           "' of type number ", option.type);
    }
  }
  return modes;
}

}  // namespace torch_pjrt::fake
