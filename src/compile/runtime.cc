#include "compile/runtime.h"

#include <pthread.h>

#include <atomic>
#include <utility>

#include "base/config.h"
#include "base/error.h"
#include "compile/shape_table.h"

namespace torch_pjrt::compile {
namespace {

// Of the process, as forking is: set in a child whose parent had a client.
std::atomic<bool> forked = false;

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  if (registered != 0) fail(Code::kInternal, "pthread_atfork failed with ", registered);
}

}  // namespace

Runtime::Runtime(Options options)
    : programs_(options.max_program_bytes, [this](const auto& gone) { on_evict(gone); }),
      workers_(std::move(options.num_threads)) {
  if (!options.disk) return;
  disk_.emplace(std::move(*options.disk), [this](cache::Fault, const std::string& text,
                                                 bool is_first) { report_disk(text, is_first); });
}

void Runtime::add(ShapeTable& table) {
  const std::lock_guard lock(tables_mutex_);
  tables_.insert(&table);
}

void Runtime::remove(ShapeTable& table) {
  // In a forked child the lock may be that of a thread which isn't there; nothing is evicted
  // either.
  if (forked) return;
  const std::lock_guard lock(tables_mutex_);
  tables_.erase(&table);
}

void Runtime::on_evict(const std::vector<std::shared_ptr<Compiled>>& programs) {
  stats_.add(&run::Stats::evictions, static_cast<int64_t>(programs.size()));
  {
    const std::lock_guard lock(tables_mutex_);
    for (const auto& program : programs) {
      for (ShapeTable* table : tables_) table->drop(*program);
    }
  }
  if (told_evicted_.exchange(true)) return;
  log_.write("warning",
             str("the compiled programs in memory take more than ", programs_.max_bytes(),
                 " bytes, so those used longest ago are given up, and are loaded from disk or "
                 "compiled again when they are needed. Raise TORCH_PJRT_MAX_PROGRAM_BYTES, or use "
                 "fewer shapes, if stats()['evictions'] goes on growing"));
}

void Runtime::report_disk(const std::string& text, bool is_first) {
  stats_.add(&run::Stats::disk_faults);
  log_.write(is_first ? "warning" : "cache", "the cache of programs: " + text);
}

void Runtime::report_unstorable(const std::string& why) {
  report_disk(
      "programs of this plugin can't be kept on disk, so each process compiles them: " + why,
      !told_unstorable_.exchange(true));
}

void Runtime::check_process() {
  if (forked.load(std::memory_order_relaxed)) [[unlikely]] {
    fail(Code::kInvalid,
         "this process was forked from one that had used a PJRT plugin, whose threads don't exist "
         "here. Start it with the multiprocessing method 'spawn', or fork before the first use");
  }
}

Device& Runtime::device(const std::string& path) {
  check_process();
  const std::string plugin_path = path.empty() ? config::plugin_path() : path;
  if (plugin_path.empty()) {
    fail(Code::kInvalid,
         "no PJRT plugin: give its path as the option 'plugin' or in TORCH_PJRT_PLUGIN");
  }
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Device>& device = devices_[plugin_path];
  if (!device) {
    config::quieten_xla();
    const auto plugin = pjrt::Plugin::load(plugin_path);
    device = find_device(plugin->identity());
    if (!device) {
      auto client = make_client(plugin);
      watch_forks();
      device = std::make_shared<Device>(std::move(client));
    }
  }
  return *device;
}

std::shared_ptr<Device> Runtime::find_device(const std::string& identity) const {
  for (const auto& [path, device] : devices_) {
    if (device && device->client().plugin().identity() == identity) return device;
  }
  return nullptr;
}

}  // namespace torch_pjrt::compile
