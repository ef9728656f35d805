#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>

#include "pjrt/library_identity.h"

namespace torch_pjrt::pjrt {
namespace {

using GetPjrtApi = const PJRT_Api*();

constexpr const char* kRemedy =
    "; give the path of a PJRT plugin's .so file, e.g. xla_cpu_pjrt.so of the package xla-cpu-pjrt";

const char* last_dl_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

// Checks what must hold before the first function of the table may be called.
void check_version(const std::string& path, const PJRT_Api* table) {
  if (!table) {
    fail(Code::kInvalid, "PJRT plugin ", path,
         ": GetPjrtApi gives no function table; use another "
         "version of the plugin");
  }
  const size_t size = table->struct_size;
  if (size < offsetof(PJRT_Api, PJRT_Error_Destroy)) {
    fail(Code::kInvalid, "PJRT plugin ", path, ": its function table has ", size,
         " bytes, which leaves no room for a version; use another version of the plugin");
  }
  const PJRT_Api_Version& version = table->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR) {
    fail(Code::kInvalid, "PJRT plugin ", path, ": it speaks PJRT C API ", version.major_version,
         ".", version.minor_version, ", we speak ", PJRT_API_MAJOR, ".", PJRT_API_MINOR,
         "; use a version of the plugin with PJRT C API ", PJRT_API_MAJOR, ".x");
  }
}

const PJRT_Api* open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fail(Code::kInvalid, "PJRT plugin ", path, ": not a library that can be loaded (",
         last_dl_error(), ")", kRemedy);
  }
  // Not closed from here on, whatever follows: a plugin may have started threads.
  auto* get = reinterpret_cast<GetPjrtApi*>(dlsym(library, "GetPjrtApi"));
  if (!get) {
    fail(Code::kInvalid, "PJRT plugin ", path,
         ": a shared library, but no PJRT plugin: it has no function GetPjrtApi", kRemedy);
  }
  const PJRT_Api* table = get();
  check_version(path, table);
  return table;
}

// A library is set up once, however often and by however many paths it is loaded.
void initialize_once(const Api& api) {
  // Older plugins have nothing to set up, and no such function.
  if (!api.has<&PJRT_Api::PJRT_Plugin_Initialize>()) return;
  static std::mutex mutex;
  static auto& initialized = *std::make_unique<std::set<const PJRT_Api*>>().release();
  const std::lock_guard lock(mutex);
  if (initialized.contains(api.table())) return;
  api.call<&PJRT_Api::PJRT_Plugin_Initialize>({});
  initialized.insert(api.table());
}

std::string value_text(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString:
      return {value.string_value, value.value_size};
    case PJRT_NamedValue_kInt64:
      return std::to_string(value.int64_value);
    case PJRT_NamedValue_kInt64List: {
      // In practice versions.
      std::string text;
      for (size_t i = 0; i < value.value_size; ++i) {
        text += (i ? "." : "") + std::to_string(value.int64_array_value[i]);
      }
      return text;
    }
    case PJRT_NamedValue_kFloat:
      return str(value.float_value);
    case PJRT_NamedValue_kBool:
      return value.bool_value ? "true" : "false";
  }
  return "";
}

}  // namespace

std::shared_ptr<const Plugin> Plugin::load(const std::string& path) {
  // A name without a slash would be looked for in the system's folders instead.
  std::string full_path = std::filesystem::absolute(path);
  if (!std::filesystem::is_regular_file(full_path)) {
    fail(Code::kInvalid, "PJRT plugin ", full_path, ": no such file", kRemedy);
  }
  MappedFile file(full_path);
  return std::make_shared<const Plugin>(Private(), std::move(full_path), std::move(file));
}

Plugin::Plugin(Private, std::string path, MappedFile file)
    : path_(std::move(path)), file_(std::move(file)), api_(open_library(path_)) {
  initialize_once(api_);
  const auto args = api_.ask<&PJRT_Api::PJRT_Plugin_Attributes>({});
  for (size_t i = 0; args && i < args->num_attributes; ++i) {
    const PJRT_NamedValue& attribute = args->attributes[i];
    attributes_[{attribute.name, attribute.name_size}] = value_text(attribute);
  }
}

const std::string& Plugin::identity() const {
  std::call_once(identity_once_, [this] {
    const std::string id = build_id(api_.table());
    identity_ = id.empty() ? "content:" + content_hash(file_->content()) : "build-id:" + id;
    file_.reset();
  });
  return identity_;
}

}  // namespace torch_pjrt::pjrt
