// The plugin's function table; call() checks that a function is there and turns errors into ours.
#pragma once

#include <pjrt_c_api.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace torch_pjrt::pjrt {

namespace internal {

template <auto Function>
struct Signature;

template <class R, class A, R (*PJRT_Api::*Function)(A*)>
struct Signature<Function> {
  using Args = A;
};

// E.g. "PJRT_Client_Compile".
template <auto Function>
constexpr std::string_view function_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("PJRT_Api::") + std::string_view("PJRT_Api::").size());
  return text.substr(0, text.find_first_of(";],"));
}

}  // namespace internal

// What the function `Function`, e.g. &PJRT_Api::PJRT_Client_Compile, takes and gives back.
template <auto Function>
using Args = typename internal::Signature<Function>::Args;

// A non-owning view of a loaded plugin's table; it may be copied, and is valid for the life of the
// process, since no plugin is unloaded. Any thread may use it.
class Api {
 public:
  explicit Api(const PJRT_Api* table) : table_(table) {}

  // Whether the plugin has the function. A plugin built from an older header has a shorter table.
  template <auto Function>
  bool has() const {
    const auto* end = reinterpret_cast<const char*>(&(table_->*Function) + 1);
    return end <= reinterpret_cast<const char*>(table_) + table_->struct_size &&
           table_->*Function != nullptr;
  }

  // Throws Error(kPlugin) if the plugin lacks one of the functions.
  template <auto... Functions>
  void require() const {
    ((has<Functions>() ? void() : fail_missing(internal::function_name<Functions>())), ...);
  }

  // Calls the function with the fields given, the others zero, and returns them with its results:
  // `call<&PJRT_Api::PJRT_Event_IsReady>({.event = event}).is_ready`. Throws Error(kPlugin)
  // with the plugin's message, or if the plugin lacks the function.
  template <auto Function>
  Args<Function> call(Args<Function> args) const {
    if (!has<Function>()) [[unlikely]]
      fail_missing(internal::function_name<Function>());
    if (PJRT_Error* error = invoke<Function>(args)) [[unlikely]] {
      fail_with(internal::function_name<Function>(), error);
    }
    return args;
  }

  // The same for facts that a plugin may decline to give: nullopt where it lacks the function or
  // reports an error.
  template <auto Function>
  std::optional<Args<Function>> ask(Args<Function> args) const {
    if (!has<Function>()) return std::nullopt;
    if (PJRT_Error* error = invoke<Function>(args)) {
      destroy(error);
      return std::nullopt;
    }
    return args;
  }

  // The same for destructors, which have nobody to report an error to.
  template <auto Function>
  void release(Args<Function> args) const noexcept {
    if (!has<Function>()) return;
    if (PJRT_Error* error = invoke<Function>(args)) destroy(error);
  }

  const PJRT_Api* table() const { return table_; }
  int major() const { return table_->pjrt_api_version.major_version; }
  int minor() const { return table_->pjrt_api_version.minor_version; }

 private:
  template <auto Function>
  PJRT_Error* invoke(Args<Function>& args) const {
    // The header's X_STRUCT_SIZE leaves out the padding at the end. Counting it is harmless: it is
    // zero, as a plugin that knows a field there expects of a caller that doesn't.
    args.struct_size = sizeof(args);
    return (table_->*Function)(&args);
  }

  [[noreturn]] void fail_missing(std::string_view function) const;
  [[noreturn]] void fail_with(std::string_view function, PJRT_Error* error) const;
  void destroy(PJRT_Error* error) const noexcept;

  const PJRT_Api* table_;
};

// Deletes a PJRT object through the function `Destroy`, for std::unique_ptr.
template <auto Destroy>
struct Deleter {
  Api api;

  template <class Object>
  void operator()(Object* object) const noexcept {
    // The object is the one field of every destructor's arguments.
    api.release<Destroy>({sizeof(Args<Destroy>), nullptr, object});
  }
};

}  // namespace torch_pjrt::pjrt
