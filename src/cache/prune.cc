#include "cache/prune.h"

#include <algorithm>
#include <ctime>
#include <vector>

namespace torch_pjrt::cache {
namespace {

// A file being written is younger than this, unless its process was stopped.
constexpr int64_t kUnfinishedAgeNs = int64_t{3600} * 1'000'000'000;

int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Removed prune(const Folder& folder, int64_t max_bytes) {
  std::vector<FileInfo> entries;
  int64_t total = 0;
  const int64_t now = now_ns();
  for (FileInfo& file : folder.list()) {
    if (file.is_finished) {
      total += file.bytes;
      entries.push_back(std::move(file));
    } else if (now - file.used_ns > kUnfinishedAgeNs) {
      folder.remove(file.name);
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.used_ns < b.used_ns; });
  Removed removed;
  for (const FileInfo& entry : entries) {
    if (total <= max_bytes) break;
    total -= entry.bytes;
    if (!folder.remove(entry.name)) continue;
    ++removed.entries;
    removed.bytes += entry.bytes;
  }
  return removed;
}

}  // namespace torch_pjrt::cache
