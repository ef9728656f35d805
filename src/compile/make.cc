#include "compile/make.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "compile/stored.h"

namespace torch_pjrt::compile {
namespace {

// What a loaded program takes. XLA's CPU client says 0 of its code; measured there (in growth of
// the process) is 16 times the serialised size, whatever the size of the model.
int64_t memory_bytes(const Compiled& compiled, size_t serialized_bytes) {
  constexpr int64_t kPerSerializedByte = 16;
  constexpr int64_t kUnknown = int64_t{1} << 20;  // a plugin that neither tells nor serialises
  if (const int64_t told = compiled.executable->code_size_bytes().value_or(0); told > 0)
    return told;
  return serialized_bytes > 0 ? kPerSerializedByte * static_cast<int64_t>(serialized_bytes)
                              : kUnknown;
}

// Throws Error where the bytes are no program that the plugin loads.
std::shared_ptr<Compiled> restore(std::string_view bytes, const Device& device) {
  Stored stored = from_bytes(bytes);
  auto compiled = std::make_shared<Compiled>();
  compiled->origin = run::Origin::kDisk;
  compiled->program = std::move(stored.program);
  compiled->executable = device.client().deserialize(stored.executable);
  if (compiled->executable->num_outputs() != compiled->program.results.size()) {
    fail(Code::kIo, "the executable has ", compiled->executable->num_outputs(), " results, not ",
         compiled->program.results.size());
  }
  compiled->num_bytes = memory_bytes(*compiled, stored.executable.size());
  return compiled;
}

// Says once where a program of this graph and these sizes is there, but made in other surroundings.
void report_foreign(const cache::Key& key, Runtime& runtime, const StoredPrograms& programs) {
  constexpr std::array<std::string_view, 4> kOfTheCall = {"graph", "symbol values", "input layouts",
                                                          "matmul precision"};
  for (const auto& [bytes, program] : programs.by_key) {
    const std::optional<cache::Key> other = cache::Key::from_bytes(bytes);
    if (!other) continue;
    const std::vector<std::string> names = difference(key, *other);
    const bool is_other_call = std::ranges::any_of(names, [&](const std::string& name) {
      return std::ranges::find(kOfTheCall, name) != kOfTheCall.end();
    });
    if (is_other_call || programs.told_foreign.exchange(true)) continue;
    std::string text =
        "programs that came with their graph aren't used, but compiled anew: they "
        "were made with another";
    for (const std::string& name : names) text += " " + name + ",";
    text.pop_back();
    runtime.log().write("warning", text);
  }
}

std::string reason(const CompileRecord& record) {
  if (record.changes.empty()) return "the first program of this graph";
  std::string text = "differs from this graph's last program in:";
  for (const std::string& change : record.changes) text += " " + change + ";";
  return text;
}

}  // namespace

std::shared_ptr<Compiled> load(const cache::Key& key, const Device& device, Runtime& runtime,
                               cache::Disk& disk) {
  const std::optional<std::string> bytes = disk.read(key);
  if (!bytes) return nullptr;
  try {
    auto compiled = restore(*bytes, device);
    runtime.log().write("compile", str("loaded from ", disk.path(key)));
    return compiled;
  } catch (const Error& error) {
    disk.refuse(key, error.what());
    return nullptr;
  }
}

std::shared_ptr<Compiled> load(const cache::Key& key, const Device& device, Runtime& runtime,
                               const StoredPrograms& programs) {
  const auto found = programs.by_key.find(key.bytes());
  if (found == programs.by_key.end()) {
    report_foreign(key, runtime, programs);
    return nullptr;
  }
  try {
    return restore(found->second, device);
  } catch (const Error& error) {
    runtime.log().write("warning", str("a program that came with its graph is not used, and "
                                       "compiled anew: ",
                                       error.what()));
    return nullptr;
  }
}

std::shared_ptr<Compiled> compile_now(const Graph& graph, const lower::Signature& signature,
                                      const lower::Options& options,
                                      const std::vector<pjrt::Override>& overrides, Device& device,
                                      Runtime& runtime, const CompileRecord& record) {
  const Log& log = runtime.log();
  if (log.enabled()) log.write("graph", print(graph));
  const auto begin = std::chrono::steady_clock::now();
  auto compiled = std::make_shared<Compiled>();
  compiled->program = lower::lower(graph, signature, options);
  const std::string text = std::move(compiled->program.text);
  compiled->program.text.clear();
  runtime.stats().add(&run::Stats::lowerings);
  if (log.enabled()) log.write("stablehlo", text);
  const auto lowered = std::chrono::steady_clock::now();
  compiled->executable = device.compile(text, overrides, log);
  runtime.history().add(record);
  if (log.enabled()) {
    const auto ms = [](auto duration) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    };
    log.write("compile", str("lowered ", graph.nodes.size(), " nodes in ", ms(lowered - begin),
                             " ms, compiled in ", ms(std::chrono::steady_clock::now() - lowered),
                             " ms; ", reason(record)));
  }
  return compiled;
}

void finish(const cache::Key& key, Compiled& compiled, Runtime& runtime, cache::Disk* disk) {
  std::string executable;
  try {
    executable = compiled.executable->serialize();
  } catch (const Error& error) {
    if (disk) runtime.report_unstorable(error.what());
  }
  compiled.num_bytes = memory_bytes(compiled, executable.size());
  if (disk && !executable.empty()) {
    disk->write(key, to_bytes({compiled.program, std::move(executable)}));
  }
}

}  // namespace torch_pjrt::compile
