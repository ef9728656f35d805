#include "pjrt/api.h"

namespace torch_pjrt::pjrt {
namespace {

const char* name(PJRT_Error_Code code) {
  constexpr const char* kNames[] = {"OK",
                                    "CANCELLED",
                                    "UNKNOWN",
                                    "INVALID_ARGUMENT",
                                    "DEADLINE_EXCEEDED",
                                    "NOT_FOUND",
                                    "ALREADY_EXISTS",
                                    "PERMISSION_DENIED",
                                    "RESOURCE_EXHAUSTED",
                                    "FAILED_PRECONDITION",
                                    "ABORTED",
                                    "OUT_OF_RANGE",
                                    "UNIMPLEMENTED",
                                    "INTERNAL",
                                    "UNAVAILABLE",
                                    "DATA_LOSS",
                                    "UNAUTHENTICATED"};
  const auto index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

// XLA's CPU plugin reports want of memory for a program's own values as an internal error.
bool tells_of_memory(std::string_view message) {
  return message.find("Out of memory") != std::string_view::npos;
}

}  // namespace

void Api::fail_missing(std::string_view function) const {
  fail(Code::kPlugin, function, ": the plugin doesn't have this function (it speaks PJRT C API ",
       major(), ".", minor(), ", we were built for ", PJRT_API_MAJOR, ".", PJRT_API_MINOR,
       "); use a newer version of the plugin");
}

void Api::fail_with(std::string_view function, PJRT_Error* error) const {
  std::string code = "UNKNOWN";
  std::string message = "the plugin gives no message";
  if (has<&PJRT_Api::PJRT_Error_GetCode>()) {
    PJRT_Error_GetCode_Args args = {sizeof(args), nullptr, error, PJRT_Error_Code_UNKNOWN};
    if (PJRT_Error* nested = table_->PJRT_Error_GetCode(&args)) {
      destroy(nested);
    } else {
      code = name(args.code);
    }
  }
  if (has<&PJRT_Api::PJRT_Error_Message>()) {
    PJRT_Error_Message_Args args = {sizeof(args), nullptr, error, nullptr, 0};
    table_->PJRT_Error_Message(&args);
    message.assign(args.message, args.message_size);
  }
  destroy(error);
  if (code == name(PJRT_Error_Code_RESOURCE_EXHAUSTED) || tells_of_memory(message)) {
    fail(Code::kOutOfMemory, function, ": the plugin reports ", code, ": ", message,
         "; use smaller tensors (a smaller batch), or free some");
  }
  fail(Code::kPlugin, function, ": the plugin reports ", code, ": ", message);
}

void Api::destroy(PJRT_Error* error) const noexcept {
  if (!has<&PJRT_Api::PJRT_Error_Destroy>()) return;
  PJRT_Error_Destroy_Args args = {sizeof(args), nullptr, error};
  table_->PJRT_Error_Destroy(&args);
}

}  // namespace torch_pjrt::pjrt
