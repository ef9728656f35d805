#include "fake_plugin/table.h"

#include <chrono>
#include <thread>

namespace torch_pjrt::fake {

Table::Table() {
  api_.struct_size = sizeof(api_);
  api_.pjrt_api_version.struct_size = sizeof(api_.pjrt_api_version);
  api_.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api_.pjrt_api_version.minor_version = PJRT_API_MINOR;
  add_plugin_functions(*this);
  add_error_functions(*this);
  add_event_functions(*this);
  add_client_functions(*this);
  add_device_functions(*this);
  add_buffer_functions(*this);
  add_executable_functions(*this);
}

void Table::check_size(size_t size, size_t expected, std::string_view function) {
  constexpr size_t kMostPadding = alignof(void*) - 1;
  if (size + kMostPadding < expected) {
    fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: ", function, ": struct_size is ", size,
         ", at least ", expected, " is expected");
  }
}

void Calls::add() {
  const int64_t call = ++count_;
  if (const int64_t ms = delay_ms_; ms != 0) [[unlikely]] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  }
  if (call == failing_) {
    fail(code_, "fake plugin: ", name_, " was told to fail at call ", call);
  }
}

bool Calls::fail_at(int64_t nth, PJRT_Error_Code code) {
  if (!can_fail_ || nth < 1) return false;
  code_ = code;
  failing_ = count_ + nth;
  return true;
}

bool Calls::delay(int64_t ms) {
  if (ms < 0) return false;
  delay_ms_ = ms;
  return true;
}

void Calls::reset() {
  count_ = 0;
  failing_ = 0;
  delay_ms_ = 0;
}

}  // namespace torch_pjrt::fake
