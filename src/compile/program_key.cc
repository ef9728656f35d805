#include "compile/program_key.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>

#include "base/config.h"
#include "base/error.h"
#include "compile/stored.h"

namespace torch_pjrt::compile {
namespace {

// What the first processor is and can do, by which compilers choose; empty where the system doesn't
// tell.
const std::string& cpu_features() {
  static const std::string features = [] {
    constexpr std::array<std::string_view, 8> kNames = {
        "vendor_id", "cpu family", "model\t",  "flags",  // x86
        "CPU imp",   "CPU arch",   "CPU part", "Features"};
    std::ifstream file("/proc/cpuinfo");
    std::string lines;
    for (std::string line; std::getline(file, line) && !line.empty();) {
      const bool tells = std::any_of(kNames.begin(), kNames.end(),
                                     [&](std::string_view name) { return line.starts_with(name); });
      if (tells) lines += line + "\n";
    }
    return lines;
  }();
  return features;
}

// How many threads a CPU client makes, which decides how it splits the work of a program.
std::string threads() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const bool known = sched_getaffinity(0, sizeof(usable), &usable) == 0;
  const unsigned count =
      known ? static_cast<unsigned>(CPU_COUNT(&usable)) : std::thread::hardware_concurrency();
  return str(count, " ", config::threads());
}

// XLA_FLAGS holds flags, or names a file of them.
std::string xla_flags() {
  std::string flags = config::xla_flags();
  if (flags.empty() || flags.find("--") != std::string::npos) return flags;
  std::ifstream file(flags);
  return flags + "\n" + std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<int64_t> layouts(const std::vector<lower::Order>& orders) {
  std::vector<int64_t> numbers;
  for (const lower::Order& order : orders) {
    numbers.push_back(static_cast<int64_t>(order.size()));
    numbers.insert(numbers.end(), order.begin(), order.end());
  }
  return numbers;
}

}  // namespace

std::vector<int64_t> structural_values(const std::vector<bool>& structural,
                                       const std::vector<int64_t>& symbols) {
  std::vector<int64_t> values(symbols.size());
  for (size_t s = 0; s < symbols.size(); ++s) {
    if (structural[s]) values[s] = symbols[s];
  }
  return values;
}

cache::Key program_key(const std::string& graph_bytes, const std::vector<bool>& structural,
                       const lower::Signature& signature, const lower::Options& options,
                       const std::vector<pjrt::Override>& overrides, const Device& device) {
  const pjrt::Client& client = device.client();
  const pjrt::Plugin& plugin = client.plugin();
  const std::vector<int64_t> device_count = {static_cast<int64_t>(client.device_count())};
  cache::Key key;
  key.add("graph", graph_bytes);
  key.add(kSymbolValues, structural_values(structural, signature.symbols));
  key.add("input layouts", layouts(signature.input_orders));
  key.add("donation", static_cast<int64_t>(options.donation));
  key.add("compile options", pjrt::serialize({overrides}));
  key.add("matmul precision", static_cast<int64_t>(options.precision));
  key.add("XLA_FLAGS", xla_flags());
  key.add("plugin", plugin.identity());
  key.add("plugin API version", std::vector<int64_t>{plugin.api().major(), plugin.api().minor()});
  key.add("platform", client.platform_name() + " " + client.platform_version());
  key.add("device kind", client.device_kind());
  key.add("device count", device_count);
  key.add("CPU features", cpu_features());
  key.add("threads", threads());
  key.add("lowering version", int64_t{lower::kLoweringVersion});
  key.add("storage version", int64_t{kStoredVersion});
  return key;
}

}  // namespace torch_pjrt::compile
