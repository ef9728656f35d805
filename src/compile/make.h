// A program for the device: from where one was stored, or lowered and compiled.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/disk.h"
#include "cache/key.h"
#include "compile/device.h"
#include "compile/history.h"
#include "compile/runtime.h"
#include "graph/graph.h"
#include "lower/lower.h"

namespace torch_pjrt::compile {

// Programs that come with a graph.
struct StoredPrograms {
  using Value = std::pair<std::string, std::string>;  // the bytes of a key, and of a Stored

  std::unordered_map<std::string, std::string> by_key;
  // Whether it was said that they are for another plugin, processor or setting.
  mutable std::atomic<bool> told_foreign = false;
};

// What an earlier process stored; null if there is nothing that the plugin loads.
std::shared_ptr<Compiled> load(const cache::Key& key, const Device& device, Runtime& runtime,
                               cache::Disk& disk);
// The same of the programs that came with the graph. Says once where there are some for another
// plugin, processor or setting.
std::shared_ptr<Compiled> load(const cache::Key& key, const Device& device, Runtime& runtime,
                               const StoredPrograms& programs);

// Throws Error where the graph can't be lowered or the plugin refuses the program.
std::shared_ptr<Compiled> compile_now(const Graph& graph, const lower::Signature& signature,
                                      const lower::Options& options,
                                      const std::vector<pjrt::Override>& overrides, Device& device,
                                      Runtime& runtime, const CompileRecord& record);

// Stores what was compiled, if there is a disk, and finds out how much memory it takes.
void finish(const cache::Key& key, Compiled& compiled, Runtime& runtime, cache::Disk* disk);

}  // namespace torch_pjrt::compile
