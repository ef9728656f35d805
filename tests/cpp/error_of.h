// What a call throws, as text.
#pragma once

#include <string>

#include "base/error.h"

namespace torch_pjrt {

// "<code>: <message>" of the Error that `body` throws, or "".
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "";
}

}  // namespace torch_pjrt
