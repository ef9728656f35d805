// The function table, and what every function of it does at its boundary: count, fail on order, and
// return as an error what its implementation throws.
#pragma once

#include <pjrt_c_api.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <string_view>
#include <type_traits>
#include <vector>

// All kinds of objects, for entry() to check those that it is given.
#include "fake_plugin/buffer.h"
#include "fake_plugin/client.h"
#include "fake_plugin/error.h"
#include "fake_plugin/event.h"
#include "fake_plugin/executable.h"
#include "fake_plugin/strict.h"

namespace torch_pjrt::fake {

// The calls of one function, and the order to fail.
class Calls {
 public:
  constexpr Calls(std::string_view name, bool can_fail) : name_(name), can_fail_(can_fail) {}

  std::string_view name() const { return name_; }
  int64_t count() const { return count_; }

  // Counts one call and takes its time; throws a Failure if it is the one that is to fail.
  void add();
  bool fail_at(int64_t nth, PJRT_Error_Code code);
  bool delay(int64_t ms);
  void reset();

 private:
  std::string_view name_;
  bool can_fail_;
  std::atomic<int64_t> count_{0};
  std::atomic<int64_t> failing_{0};  // the count at which to fail; 0 for never
  std::atomic<PJRT_Error_Code> code_{PJRT_Error_Code_INTERNAL};
  std::atomic<int64_t> delay_ms_{0};
};

template <auto Field>
struct Signature;
template <class R, class A, R (*PJRT_Api::*Field)(A*)>
struct Signature<Field> {
  using Result = R;
  using Args = A;
};

// E.g. "PJRT_Client_Compile" for &PJRT_Api::PJRT_Client_Compile.
template <auto Field>
constexpr std::string_view function_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("PJRT_Api::") + std::string_view("PJRT_Api::").size());
  return text.substr(0, text.find_first_of(";],"));
}

template <auto Field>
inline constinit Calls calls{function_name<Field>(),
                             !std::is_void_v<typename Signature<Field>::Result>};

class Table {
 public:
  Table();

  // Each of these takes a lambda without captures, which gets the arguments by reference.
  template <auto Field, class Implementation>
  void add(Implementation) {
    set<Field>(&entry<Field, Implementation>);
  }

  // For a function that frees its object even when it is to fail.
  template <auto Field, class Implementation>
  void add_destructor(Implementation) {
    set<Field>(&destructor_entry<Field, Implementation>);
  }

  const PJRT_Api& api() const { return api_; }
  const std::vector<Calls*>& functions() const { return functions_; }
  // Where in a PJRT_Api each of functions() is, in bytes.
  const std::vector<size_t>& offsets() const { return offsets_; }

 private:
  template <auto Field>
  void set(typename Signature<Field>::Result (*function)(typename Signature<Field>::Args*)) {
    api_.*Field = function;
    functions_.push_back(&calls<Field>);
    offsets_.push_back(static_cast<size_t>(reinterpret_cast<const char*>(&(api_.*Field)) -
                                           reinterpret_cast<const char*>(&api_)));
  }

  template <auto Field, class Implementation>
  static typename Signature<Field>::Result entry(typename Signature<Field>::Args* args) noexcept {
    return guarded<Field>(args, [&] {
      calls<Field>.add();
      Implementation{}(*args);
    });
  }

  template <auto Field, class Implementation>
  static PJRT_Error* destructor_entry(typename Signature<Field>::Args* args) noexcept {
    return guarded<Field>(args, [&] {
      Implementation{}(*args);
      calls<Field>.add();
    });
  }

  template <auto Field, class Body>
  static typename Signature<Field>::Result guarded(typename Signature<Field>::Args* args,
                                                   Body body) noexcept {
    if constexpr (std::is_void_v<typename Signature<Field>::Result>) {
      body();
    } else {
      try {
        check_size(args->struct_size, sizeof(*args), calls<Field>.name());
        check_arguments_alive(calls<Field>.name(), *args);
        body();
        return nullptr;
      } catch (const Failure& failure) {
        return make_error(failure.code, failure.message);
      } catch (const std::exception& error) {
        return make_error(PJRT_Error_Code_INTERNAL, error.what());
      }
    }
  }

  // Throws if a caller's struct ends before ours does; padding may be left out.
  static void check_size(size_t size, size_t expected, std::string_view function);

  PJRT_Api api_ = {};
  std::vector<Calls*> functions_;
  std::vector<size_t> offsets_;
};

// One for each .cc file that has functions.
void add_buffer_functions(Table& table);
void add_client_functions(Table& table);
void add_device_functions(Table& table);
void add_error_functions(Table& table);
void add_event_functions(Table& table);
void add_executable_functions(Table& table);
void add_plugin_functions(Table& table);

}  // namespace torch_pjrt::fake
