// The plugin's exported functions: GetPjrtApi, and what control.h declares.
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fake_plugin/buffer.h"
#include "fake_plugin/client.h"
#include "fake_plugin/control.h"
#include "fake_plugin/event.h"
#include "fake_plugin/executable.h"
#include "fake_plugin/modes.h"
#include "fake_plugin/table.h"

namespace torch_pjrt::fake {
namespace {

constexpr std::array<int64_t, 3> kStableHloVersion = {1, 13, 3};

const Table& table() {
  static const Table table;
  return table;
}

// What GetPjrtApi gives; null: the table as it is.
std::atomic<const PJRT_Api*> given_api = nullptr;

// A table of another version, with room for functions of a later header.
struct OtherApi {
  PJRT_Api api;
  std::array<void*, 8> more;
};

Calls* find(const char* function) {
  for (Calls* calls : table().functions()) {
    if (calls->name() == function) return calls;
  }
  return nullptr;
}

// Where the table has that function, in bytes.
std::optional<size_t> offset(std::string_view function) {
  for (size_t i = 0; i < table().functions().size(); ++i) {
    if (table().functions()[i]->name() == function) return table().offsets()[i];
  }
  return std::nullopt;
}

bool set_api(int64_t minor, const char* end) {
  static std::mutex mutex;
  static std::deque<OtherApi> others;  // those given out stay valid
  if (minor == PJRT_API_MINOR && !end) {
    given_api = nullptr;
    return true;
  }
  size_t size = minor > PJRT_API_MINOR ? sizeof(OtherApi) : sizeof(PJRT_Api);
  if (end) {
    const std::optional<size_t> end_offset = offset(end);
    if (!end_offset) return false;
    size = *end_offset;
  }
  const std::lock_guard lock(mutex);
  PJRT_Api& api = others.emplace_back(OtherApi{table().api(), {}}).api;
  api.struct_size = size;
  api.pjrt_api_version.minor_version = static_cast<int>(minor);
  given_api = &api;
  return true;
}

}  // namespace

void add_plugin_functions(Table& table) {
  table.add<&PJRT_Api::PJRT_Plugin_Initialize>([](auto&) {});
  table.add<&PJRT_Api::PJRT_Plugin_Attributes>([](auto& args) {
    static const PJRT_NamedValue attribute = [] {
      static constexpr std::string_view kName = "stablehlo_current_version";
      PJRT_NamedValue value = {};
      value.struct_size = sizeof(value);
      value.name = kName.data();
      value.name_size = kName.size();
      value.type = PJRT_NamedValue_kInt64List;
      value.int64_array_value = kStableHloVersion.data();
      value.value_size = kStableHloVersion.size();
      return value;
    }();
    args.attributes = &attribute;
    args.num_attributes = 1;
  });
}

}  // namespace torch_pjrt::fake

// NOLINTBEGIN(readability-identifier-naming)
#define TORCH_PJRT_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

TORCH_PJRT_FAKE_EXPORT const PJRT_Api* GetPjrtApi() {
  const PJRT_Api* given = torch_pjrt::fake::given_api;
  return given ? given : &torch_pjrt::fake::table().api();
}

TORCH_PJRT_FAKE_EXPORT bool torch_pjrt_fake_set(const char* mode, int64_t value) {
  return torch_pjrt::fake::set_default_mode(mode, value);
}

TORCH_PJRT_FAKE_EXPORT bool torch_pjrt_fake_set_api(int64_t minor, const char* end) {
  return torch_pjrt::fake::set_api(minor, end);
}

TORCH_PJRT_FAKE_EXPORT bool torch_pjrt_fake_fail_at(const char* function, int64_t nth) {
  return torch_pjrt_fake_fail_with(function, nth, PJRT_Error_Code_INTERNAL);
}

TORCH_PJRT_FAKE_EXPORT bool torch_pjrt_fake_fail_with(const char* function, int64_t nth,
                                                      int32_t code) {
  torch_pjrt::fake::Calls* calls = torch_pjrt::fake::find(function);
  return calls && calls->fail_at(nth, static_cast<PJRT_Error_Code>(code));
}

TORCH_PJRT_FAKE_EXPORT bool torch_pjrt_fake_delay(const char* function, int64_t ms) {
  torch_pjrt::fake::Calls* calls = torch_pjrt::fake::find(function);
  return calls && calls->delay(ms);
}

TORCH_PJRT_FAKE_EXPORT int64_t torch_pjrt_fake_calls(const char* function) {
  const torch_pjrt::fake::Calls* calls = torch_pjrt::fake::find(function);
  return calls ? calls->count() : -1;
}

TORCH_PJRT_FAKE_EXPORT int64_t torch_pjrt_fake_running(void) {
  return torch_pjrt::fake::LateEnds::running();
}

TORCH_PJRT_FAKE_EXPORT int64_t torch_pjrt_fake_live(const char* kind) {
  const auto found = torch_pjrt::fake::kind_of(kind);
  return found ? torch_pjrt::fake::Object::live(*found) : -1;
}

TORCH_PJRT_FAKE_EXPORT void torch_pjrt_fake_reset() {
  for (torch_pjrt::fake::Calls* calls : torch_pjrt::fake::table().functions()) calls->reset();
}

TORCH_PJRT_FAKE_EXPORT const char* torch_pjrt_fake_function(int64_t index) {
  // Names are parts of longer literals, hence not terminated where they end.
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const torch_pjrt::fake::Calls* calls : torch_pjrt::fake::table().functions()) {
      list.emplace_back(calls->name());
    }
    return list;
  }();
  const auto size = static_cast<int64_t>(names.size());
  return index >= 0 && index < size ? names[static_cast<size_t>(index)].c_str() : nullptr;
}
// NOLINTEND(readability-identifier-naming)
