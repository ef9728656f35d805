// How a program is compiled, and the protocol-buffer bytes by which a plugin is told.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace torch_pjrt::pjrt {

// A flag of the plugin's compiler, for one program: e.g. {"xla_cpu_enable_fast_min_max", false}.
// The plugin checks name and type.
struct Override {
  std::string name;
  std::variant<bool, int64_t, double, std::string> value;

  bool operator==(const Override&) const = default;
};

struct CompileOptions {
  std::vector<Override> overrides;
};

// A CompileOptionsProto for one replica and one partition on the default device.
std::string serialize(const CompileOptions& options);

}  // namespace torch_pjrt::pjrt
