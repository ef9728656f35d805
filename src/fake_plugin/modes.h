// How a client of the fake plugin behaves.
#pragma once

#include <pjrt_c_api.h>

#include <cstdint>
#include <string_view>

namespace torch_pjrt::fake {

// Each is an option of PJRT_Client_Create of the same name; torch_pjrt_fake_set() sets what a
// client gets without that option. control.h says what they do.
struct Modes {
  int64_t devices = 1;
  bool own_memory = false;
  bool strict = false;
  int64_t late_ms = 0;
};

// Sets the mode of that name for clients made from now on; false if there is none, or not with this
// value.
bool set_default_mode(std::string_view name, int64_t value);

// The defaults, changed by the options. Throws a Failure for an unknown one.
Modes client_modes(const PJRT_Client_Create_Args& args);

}  // namespace torch_pjrt::fake
