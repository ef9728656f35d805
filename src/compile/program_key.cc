#include "compile/program_key.h"

#include <fstream>
#include <thread>

#include "base/config.h"

namespace torch_pjrt::compile {
namespace {

// What the processor can do; empty where the system doesn't tell.
const std::string& cpu_features() {
  static const std::string features = [] {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("flags") || line.starts_with("Features")) return line;
    }
    return std::string();
  }();
  return features;
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
  key.add("symbol values", structural_values(structural, signature.symbols));
  key.add("input layouts", layouts(signature.input_orders));
  key.add("donation", int64_t{options.donate});
  key.add("compile options", pjrt::serialize({overrides}));
  key.add("matmul precision", static_cast<int64_t>(options.precision));
  key.add("XLA_FLAGS", config::xla_flags());
  key.add("plugin", plugin.identity());
  key.add("plugin API version", std::vector<int64_t>{plugin.api().major(), plugin.api().minor()});
  key.add("platform", client.platform_name() + " " + client.platform_version());
  key.add("device kind", client.device_kind());
  key.add("device count", device_count);
  key.add("CPU features", cpu_features());
  key.add("threads", static_cast<int64_t>(std::thread::hardware_concurrency()));
  key.add("lowering version", int64_t{lower::kLoweringVersion});
  return key;
}

}  // namespace torch_pjrt::compile
