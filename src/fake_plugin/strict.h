// Strict mode: a caller's fault ends the process, with a line on stderr that names it.
#pragma once

#include <iostream>
#include <memory>
#include <string_view>

#include "fake_plugin/object.h"

namespace torch_pjrt::fake {

template <class... Parts>
[[noreturn]] void die(const Parts&... parts) {
  std::cerr << "fake plugin, strict: ";
  (std::cerr << ... << parts) << std::endl;
  std::abort();
}

// Ends the process if the object was destroyed. Null is fine.
inline void check_alive(std::string_view function, const Object* object) {
  if (object && object->is_strict() && object->is_destroyed()) [[unlikely]] {
    die(function, " was given a destroyed ", name(object->kind()));
  }
}

// The same for each object among a function's arguments; results must be null before the call.
template <class Args>
void check_arguments_alive(std::string_view function, const Args& args) {
  if constexpr (requires { args.client->kind(); }) check_alive(function, args.client);
  if constexpr (requires { args.buffer->kind(); }) check_alive(function, args.buffer);
  if constexpr (requires { args.src->kind(); }) check_alive(function, args.src);
  if constexpr (requires { args.event->kind(); }) check_alive(function, args.event);
  if constexpr (requires { args.executable->kind(); }) check_alive(function, args.executable);
  if constexpr (requires { args.loaded_executable->kind(); }) {
    check_alive(function, args.loaded_executable);
  }
}

// Keeps the shell of a strict object for good, else frees it. What the object holds should be gone
// by then.
void keep_shell(std::shared_ptr<void> shell);

template <class T>
void destroy(T* object) {
  std::unique_ptr<T> owner(object);
  if (!owner || !owner->is_strict()) return;
  owner->set_destroyed();
  keep_shell(std::move(owner));
}

// Ends the process if the client, which is about to be destroyed, has objects left.
void check_client_leaks(const PJRT_Client& client);

}  // namespace torch_pjrt::fake
