// A captured graph that runs: finds or compiles the program for a call's sizes, and runs it.
//
// A call goes: match(), which looks the sizes up, else find(), which compiles what isn't there;
// then symbols(), memory for the results by entry.results, and run().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/binding.h"
#include "compile/entry.h"
#include "compile/make.h"
#include "compile/runtime.h"
#include "compile/shape_table.h"
#include "compile/warmup.h"
#include "run/call.h"

namespace torch_pjrt::compile {

struct Options {
  std::string plugin_path;  // empty: TORCH_PJRT_PLUGIN
  std::vector<pjrt::Override> overrides;
  bool disk_cache = true;  // if the Runtime has one
  bool on_device = false;  // the plugin allocates the results; else the caller passes their memory
  bool freeze = false;     // later writes to weights needn't be seen
  std::shared_ptr<const StoredPrograms> stored = nullptr;  // looked at first
  std::string source = {};  // where the function starts, for messages
  std::string guard = {};   // whose failure made Dynamo capture it
};

// Any thread may call it.
class Program {
 public:
  // Throws Error(kUnsupported) for a graph with a symbol that no input gives.
  Program(Graph graph, Runtime& runtime, Options options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Graph& graph() const { return *graph_; }
  std::shared_ptr<const Graph> shared_graph() const { return graph_; }
  Runtime& runtime() const { return runtime_; }
  bool on_device() const { return options_.on_device; }

  // The symbols' values for these arguments, whose tensors' data isn't read. Throws like find().
  std::vector<int64_t> bind(std::span<const Argument> arguments) const {
    return binding_.bind(*graph_, arguments);
  }
  // The program for tensors in these orders; compiles it if need be. Called without the lock.
  std::shared_ptr<Compiled> compiled(const lower::Signature& signature, lower::Precision precision,
                                     run::HostLock& lock);

  // The entry for these arguments if there is one, else null.
  std::shared_ptr<Entry> match(std::span<const Argument> arguments,
                               lower::Precision precision) const;

  struct Found {
    std::shared_ptr<Entry> entry;
    run::Origin origin;
  };
  // Throws Error(kInvalid) where an argument isn't what the graph says. Tensors must be dense.
  Found find(std::span<const Argument> arguments, lower::Precision precision, run::HostLock& lock);

  // The program for these arguments, compiled if it isn't there, for a StoredPrograms.
  // Throws Error(kPlugin) where the plugin can't store it.
  StoredPrograms::Value store(std::span<const Argument> arguments, lower::Precision precision,
                              run::HostLock& lock);

  // Has the program for these arguments compiled, if need be, by the Warmup's threads.
  void queue(std::span<const Argument> arguments, lower::Precision precision, Warmup& warmup,
             run::HostLock& lock);
  // That for tensors in these orders; called without the lock.
  void queue(const lower::Signature& signature, lower::Precision precision, Warmup& warmup);

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
  // What has to be made, and how.
  struct Work {
    cache::Key key;
    std::function<std::shared_ptr<Compiled>()> make;
  };
  Work work(const lower::Signature& signature, lower::Precision precision, Device& device);
  lower::Options lowering(lower::Precision precision, const Device& device) const;
  // As the policy says.
  std::shared_ptr<Compiled> get(const lower::Signature& signature, lower::Precision precision,
                                Device& device, run::HostLock& lock);
  std::shared_ptr<Compiled> wait_for_compile(const lower::Signature& signature,
                                             lower::Precision precision, Device& device,
                                             run::HostLock& lock);
  std::shared_ptr<Compiled> find_compiled(const lower::Signature& signature,
                                          lower::Precision precision, Device& device);
  lower::Signature signature(std::span<const Argument> arguments) const;
  // With weights in the memory order that the device prefers.
  lower::Signature relaid(lower::Signature signature, const Device& device) const;
  // `lowered` is what the program was made for, `signature` what the arguments are.
  std::shared_ptr<Entry> make_entry(const lower::Signature& signature,
                                    const lower::Signature& lowered, lower::Precision precision,
                                    const Device& device, std::shared_ptr<Compiled> compiled,
                                    std::span<const Argument> arguments);
  run::Argument argument(const lower::ProgramArgument& a, const lower::Signature& signature,
                         const lower::Signature& lowered, const Device& device, Entry& entry);
  // The copies of a weight in the order that the program wants, for all programs of the graph.
  std::shared_ptr<run::Relaid> relaid(const lower::ProgramArgument& a, const lower::Order& from,
                                      const lower::Order& to, const Device& device);
  // Those of a program that came from bytes, if they are still there.
  std::optional<std::string> stored_bytes(const cache::Key& key) const;
  cache::Disk* disk() const { return options_.disk_cache ? runtime_.disk() : nullptr; }
  cache::Key key(const lower::Signature& signature, const lower::Options& options,
                 const Device& device) const;
  CompileRecord record(const cache::Key& key, const lower::Signature& signature);
  std::vector<std::string> changes(const cache::Key& key, const lower::Signature& signature) const;
  std::string shapes(const lower::Signature& signature) const;

  std::shared_ptr<const Graph> graph_;  // also of compiles that nobody waits for any more
  Runtime& runtime_;
  Options options_;
  Binding binding_;
  std::vector<bool> structural_;
  std::string graph_bytes_;
  ShapeTable entries_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Compiled>> compiled_;  // of device, by shape_key
  std::optional<cache::Key> last_key_;
  lower::Signature last_signature_;
  std::vector<bool> reported_;  // inputs, as copied
  // By input, and the order of the copy's dims in the input's memory.
  std::map<std::pair<int32_t, lower::Order>, std::shared_ptr<run::Relaid>> relaid_;
};

// The bytes by which a program takes a number, the first of them at the lowest address.
int64_t encode(const Number& number, DType dtype);

// The program for the sizes and memory orders at capture, and no device in particular.
lower::Program lower_alone(const Graph& graph);
// The StableHLO for the given symbol values, or else for the sizes at capture.
std::string lower_text(const Graph& graph, const std::optional<std::vector<int64_t>>& symbols);

// The first node that can't be lowered for the sizes at capture, if there is one.
std::optional<lower::Refusal> refusal(const Graph& graph);

}  // namespace torch_pjrt::compile
