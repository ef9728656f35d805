// The plugin's exported functions: GetPjrtApi, and what control.h declares.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "fake_plugin/buffer.h"
#include "fake_plugin/client.h"
#include "fake_plugin/control.h"
#include "fake_plugin/event.h"
#include "fake_plugin/executable.h"
#include "fake_plugin/table.h"

namespace torch_pjrt::fake {
namespace {

constexpr std::array<int64_t, 3> kStableHloVersion = {1, 13, 3};

const Table& table() {
  static const Table table;
  return table;
}

Calls* find(const char* function) {
  for (Calls* calls : table().functions()) {
    if (calls->name() == function) return calls;
  }
  return nullptr;
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

TORCH_PJRT_FAKE_EXPORT const PJRT_Api* GetPjrtApi() { return &torch_pjrt::fake::table().api(); }

TORCH_PJRT_FAKE_EXPORT bool torch_pjrt_fake_fail_at(const char* function, int64_t nth) {
  torch_pjrt::fake::Calls* calls = torch_pjrt::fake::find(function);
  return calls && calls->fail_at(nth);
}

TORCH_PJRT_FAKE_EXPORT int64_t torch_pjrt_fake_calls(const char* function) {
  const torch_pjrt::fake::Calls* calls = torch_pjrt::fake::find(function);
  return calls ? calls->count() : -1;
}

TORCH_PJRT_FAKE_EXPORT int64_t torch_pjrt_fake_live(const char* kind) {
  const std::string_view name = kind;
  if (name == "buffer") return PJRT_Buffer::live();
  if (name == "event") return PJRT_Event::live();
  if (name == "executable") return torch_pjrt::fake::AnyExecutable::live();
  if (name == "client") return PJRT_Client::live();
  if (name == "error") return PJRT_Error::live();
  return -1;
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
