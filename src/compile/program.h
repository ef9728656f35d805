// A captured graph that runs: finds or compiles the program for a call's sizes, and runs it.
//
// A call goes: match() (the last call's entry, usually), else find(), which looks the sizes up and
// compiles what isn't there; then symbols(), memory for the results by entry.results, and run().
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/binding.h"
#include "compile/result_form.h"
#include "compile/runtime.h"
#include "run/call.h"

namespace torch_pjrt::compile {

// Programs that come with a graph: the bytes of a key to those of a Stored.
using StoredPrograms = std::unordered_map<std::string, std::string>;

struct Options {
  std::string plugin_path;  // empty: TORCH_PJRT_PLUGIN
  std::vector<pjrt::Override> overrides;
  bool disk_cache = true;  // if the Runtime has one
  bool freeze = false;     // later writes to weights needn't be seen
  std::shared_ptr<const StoredPrograms> stored = nullptr;  // looked at first
};

// The program for one set of sizes and layouts.
struct Entry {
  struct Tensor {
    int32_t input;
    DType dtype;
    int32_t rank;
  };
  struct Number {
    int32_t input;
    int64_t value;
  };

  std::vector<Tensor> tensors;
  // Of all tensors in turn: the dims, then the strides of a dense tensor in the input's order. One
  // list, since a call reads all of it.
  std::vector<int64_t> shapes;
  std::vector<Number> numbers;  // those that the program was made for
  std::vector<int32_t> free;    // inputs that may be any int
  lower::Precision precision;
  std::vector<int64_t> symbols;
  std::vector<ResultForm> results;       // in the program's order
  std::vector<lower::Problem> problems;  // that the status names
  std::vector<Scalar> scalars;           // taken at each call, in the program's order
  std::unique_ptr<run::Callable> callable;
};

// Any thread may call it.
class Program {
 public:
  // Throws Error(kUnsupported) for a graph with a symbol that no input gives.
  Program(Graph graph, Runtime& runtime, Options options);

  const Graph& graph() const { return *graph_; }
  Runtime& runtime() const { return runtime_; }

  // The last call's entry if it fits these arguments exactly, else null.
  Entry* match(std::span<const Argument> arguments, lower::Precision precision) const;

  struct Found {
    Entry* entry;  // lives as long as the Program
    run::Origin origin;
  };
  // Throws Error(kInvalid) where an argument isn't what the graph says. Tensors must be dense.
  Found find(std::span<const Argument> arguments, lower::Precision precision, run::HostLock& lock);

  // The program for these arguments, compiled if it isn't there, as an element of StoredPrograms.
  // Throws Error(kPlugin) where the plugin can't store it.
  StoredPrograms::value_type store(std::span<const Argument> arguments, lower::Precision precision,
                                   run::HostLock& lock);

  // Symbol values of a call for which `entry` was found.
  std::vector<int64_t> symbols(const Entry& entry, std::span<const Argument> arguments) const;

  // Runs the entry's program; `outputs` has memory for each of entry.results: that of a kInput is
  // the argument's own. `draws` has two random numbers for each of the graph's draws. Gives the
  // inputs that it had to copy.
  std::vector<run::Copied> run(const Found& found, std::span<const Argument> arguments,
                               std::span<const int64_t> symbols, std::span<void* const> outputs,
                               run::HostLock& lock, std::span<const int64_t> draws = {});

  // Tells runtime().copies() of these inputs, of each once in the Program's life. The host's lock
  // is held.
  void report(std::span<const run::Copied> copied);

 private:
  lower::Signature signature(std::span<const Argument> arguments) const;
  cache::Key key(const lower::Signature& signature, const lower::Options& options,
                 const Device& device) const;
  Entry* look_up(const std::string& shape_key) const;
  std::shared_ptr<Compiled> wait_for_compile(const lower::Signature& signature,
                                             lower::Precision precision, Device& device,
                                             run::HostLock& lock);
  // With weights in the memory order that the device prefers.
  lower::Signature relaid(lower::Signature signature, const Device& device) const;
  // `lowered` is what the program was made for, `signature` what the arguments are.
  std::unique_ptr<Entry> make_entry(const lower::Signature& signature,
                                    const lower::Signature& lowered, lower::Precision precision,
                                    const Device& device, const Compiled& compiled,
                                    std::span<const Argument> arguments) const;
  run::Argument argument(const lower::ProgramArgument& a, const lower::Signature& signature,
                         const lower::Signature& lowered, Entry& entry) const;
  std::string reason(const cache::Key& key);

  std::shared_ptr<const Graph> graph_;  // also of compiles that nobody waits for any more
  Runtime& runtime_;
  Options options_;
  Binding binding_;
  std::vector<bool> structural_;
  std::string graph_bytes_;
  std::atomic<Entry*> last_ = nullptr;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<Entry>> entries_;  // by shape key
  std::optional<cache::Key> last_key_;
  std::vector<bool> reported_;  // inputs, as copied
};

// The StableHLO for the given symbol values, or else for the sizes at capture.
std::string lower_text(const Graph& graph, const std::optional<std::vector<int64_t>>& symbols);

// The first node that can't be lowered for the sizes at capture, if there is one.
std::optional<lower::Refusal> refusal(const Graph& graph);

}  // namespace torch_pjrt::compile
