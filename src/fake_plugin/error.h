// Errors: thrown within the fake plugin, returned at its boundary.
#pragma once

#include <pjrt_c_api.h>

#include <sstream>
#include <string>

#include "fake_plugin/object.h"

struct PJRT_Error : torch_pjrt::fake::Object {
  PJRT_Error() : Object(torch_pjrt::fake::Kind::kError, false) {}

  PJRT_Error_Code code = PJRT_Error_Code_UNKNOWN;
  std::string message;
};

namespace torch_pjrt::fake {

// What an implementation throws and entry() makes a PJRT_Error of.
struct Failure {
  PJRT_Error_Code code;
  std::string message;
};

template <class... Parts>
[[noreturn]] void fail(PJRT_Error_Code code, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Failure{code, text.str()};
}

// The caller owns it.
PJRT_Error* make_error(PJRT_Error_Code code, const std::string& message);

}  // namespace torch_pjrt::fake
