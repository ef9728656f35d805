#include "base/error.h"

namespace torch_pjrt {

const char* name(Code code) {
  switch (code) {
    case Code::kUnsupported:
      return "unsupported";
    case Code::kInvalid:
      return "invalid";
    case Code::kPlugin:
      return "plugin";
    case Code::kOutOfMemory:
      return "out_of_memory";
    case Code::kIo:
      return "io";
    case Code::kNotCompiled:
      return "not_compiled";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace torch_pjrt
