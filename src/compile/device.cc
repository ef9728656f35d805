#include "compile/device.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace torch_pjrt::compile {
namespace {

// For PyTorch's results: a maximum with NaN is NaN, and each operation rounds to its own type.
// XNNPACK lays weights out anew at each call, which costs more than it gains. The scheduler for
// concurrency keeps all weights that were laid out anew alive at once.
constexpr const char* kCpuOff[] = {
    "xla_cpu_enable_fast_min_max",
    "xla_allow_excess_precision",
    "xla_cpu_use_xnnpack",
    "xla_cpu_enable_concurrency_optimized_scheduler",
};

bool contains(const std::vector<pjrt::Override>& overrides, std::string_view name) {
  return std::any_of(overrides.begin(), overrides.end(),
                     [&](const pjrt::Override& o) { return o.name == name; });
}

// Raises the plugin's message about one of the user's overrides, with a remedy.
void explain_override(const std::vector<pjrt::Override>& user, std::string_view message) {
  for (const pjrt::Override& o : user) {
    if (message.find(o.name) == std::string_view::npos) continue;
    fail(Code::kInvalid, message, "\n  remedy: leave '", o.name,
         "' out of compile_overrides, or give it another value");
  }
}

}  // namespace

std::unique_ptr<const pjrt::Client> make_client(const std::shared_ptr<const pjrt::Plugin>& plugin) {
  auto client = pjrt::Client::create(plugin);
  if (client->platform_name() != "cpu" || client->device_count() == 1) return client;
  try {
    return pjrt::Client::create(plugin, {{"cpu_device_count", int64_t{1}}});
  } catch (const Error&) {
    return client;  // a build that doesn't know the option
  }
}

std::vector<pjrt::Override> Device::overrides(const std::vector<pjrt::Override>& user) const {
  std::vector<pjrt::Override> all = user;
  if (client_->platform_name() != "cpu") return all;
  for (const char* name : kCpuOff) {
    if (!contains(user, name)) all.push_back({name, false});
  }
  return all;
}

bool Device::is_refused(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return refused_.contains(name);
}

void Device::refuse(const std::string& name) {
  const std::lock_guard lock(mutex_);
  refused_.insert(name);
}

std::unique_ptr<pjrt::Executable> Device::compile(const std::string& text,
                                                  const std::vector<pjrt::Override>& user,
                                                  const Log& log) {
  pjrt::CompileOptions options{overrides(user)};
  std::erase_if(options.overrides, [&](const pjrt::Override& o) {
    return !contains(user, o.name) && is_refused(o.name);
  });
  while (true) {
    try {
      return client_->compile(text, options);
    } catch (const Error& error) {
      const std::string_view message = error.what();
      if (error.code() == Code::kPlugin) explain_override(user, message);
      const auto refused = std::find_if(
          options.overrides.begin(), options.overrides.end(), [&](const pjrt::Override& o) {
            return !contains(user, o.name) && message.find(o.name) != std::string_view::npos;
          });
      if (error.code() != Code::kPlugin || refused == options.overrides.end()) throw;
      log.write("compile", str("the plugin refuses ", refused->name,
                               ", a default of ours; compiling without it: ", message));
      refuse(refused->name);
      options.overrides.erase(refused);
    }
  }
}

}  // namespace torch_pjrt::compile
