// The one exception type of the core, with a code that says whose fault it is.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace torch_pjrt {

enum class Code {
  kUnsupported,  // a valid program that we cannot run (yet); the only code that may lead to
                 // fallback
  kInvalid,      // the caller's input or options are wrong
  kPlugin,       // the PJRT plugin reported an error
  kOutOfMemory,  // the PJRT plugin has no memory left
  kIo,           // a file could not be read or written
  kNotCompiled,  // a program that would have to be compiled, where that isn't allowed
  kInternal,     // a fault of ours
};

// Returns the lower-case name of a code, e.g. "unsupported".
const char* name(Code code);

// A message says where, what is, and what to do.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

// Joins the parts as operator<< prints them.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Throws Error(code, str(parts...)).
template <class... Parts>
[[noreturn]] void fail(Code code, const Parts&... parts) {
  throw Error(code, str(parts...));
}

}  // namespace torch_pjrt
