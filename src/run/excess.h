// Freed memory that the process still holds: after many runs, several times what a run needs.
//
// A block goes back to the arena of malloc that it came from, and each thread has its own. A
// plugin's threads take turns in running a program, so in time every arena holds as much.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace torch_pjrt::run {

// Of one program. Any thread may use it.
class Excess {
 public:
  // To be called before a run; not right after one, when the plugin has yet to free the last of its
  // memory. Gives free memory back the first time, and when the process has grown by more than
  // kAllowed since the run that followed. The next run takes its memory anew from the system, which
  // costs about a quarter of a millisecond per MB: kBytesPerSecond keeps that to some 3 % of the
  // time.
  void release();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kAllowed = int64_t{8} << 20;  // bytes
  static constexpr double kBytesPerSecond = 100 << 20;
  static constexpr int64_t kUnknown = -1;
  // Resident bytes after the first run after a release; kUnknown until then.
  std::atomic<int64_t> normal_ = 0;
  std::atomic<Clock::time_point> last_;
};

}  // namespace torch_pjrt::run
