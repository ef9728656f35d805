// What all programs of a process share: devices, compiled programs, counters, log.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/disk.h"
#include "cache/memory.h"
#include "compile/copies.h"
#include "compile/device.h"
#include "compile/history.h"
#include "compile/log.h"
#include "compile/policy.h"
#include "lower/lower.h"
#include "run/call.h"
#include "run/stats.h"

namespace torch_pjrt::compile {

class ShapeTable;

// A program that is ready to run, with the order of its arguments and results.
struct Compiled : cache::Cached {
  std::shared_ptr<const pjrt::Executable> executable;
  lower::Program program;                       // without its text
  run::Origin origin = run::Origin::kCompiled;  // or kDisk
  std::atomic<bool> used = false;  // by a call, which is the one that counts the origin
};

// One per process, never destroyed: programs and tensors may outlive everything else, and a compile
// that nobody waits for any more goes on. Any thread may use it.
class Runtime {
 public:
  struct Options {
    std::optional<cache::Disk::Options> disk;  // without it programs end with the process
    int64_t max_program_bytes = std::numeric_limits<int64_t>::max();  // of programs in memory
    std::function<int()> num_threads = [] { return 1; };              // for a call's own work
  };
  Runtime() : Runtime(Options{}) {}
  explicit Runtime(Options options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // The device of the plugin at `path` (empty: TORCH_PJRT_PLUGIN), with its client, which is made
  // at the first call. Paths to one plugin, and copies of it, are one device: they have the same
  // program keys. Throws Error(kInvalid) in a child process forked since.
  Device& device(const std::string& path);
  // Throws Error(kInvalid) in a process forked after a client was made: in there it would hang.
  static void check_process();

  cache::Memory<Compiled>& programs() { return programs_; }
  // Tables that forget programs which leave the memory; each is removed before it ends.
  void add(ShapeTable& table);
  void remove(ShapeTable& table);
  cache::Disk* disk() { return disk_ ? &*disk_ : nullptr; }
  // A plugin that can't store its programs; counted, and said once.
  void report_unstorable(const std::string& why);
  run::Stats& stats() { return stats_; }
  Log& log() { return log_; }
  CopyReports& copies() { return copies_; }
  Policies& policies() { return policies_; }
  History& history() { return history_; }
  run::Workers& workers() { return workers_; }

 private:
  std::shared_ptr<Device> find_device(const std::string& identity) const;
  void report_disk(const std::string& text, bool is_first);
  void on_evict(const std::vector<std::shared_ptr<Compiled>>& programs);

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Device>> devices_;  // by path
  cache::Memory<Compiled> programs_;
  std::mutex tables_mutex_;
  std::set<ShapeTable*> tables_;
  std::atomic<bool> told_evicted_ = false;
  std::optional<cache::Disk> disk_;
  std::atomic<bool> told_unstorable_ = false;
  run::Stats stats_;
  Log log_;
  CopyReports copies_;
  Policies policies_;
  History history_;
  run::Workers workers_;
};

}  // namespace torch_pjrt::compile
