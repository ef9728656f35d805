// The compiles of a process, with what made each necessary.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace torch_pjrt::compile {

struct CompileRecord {
  std::string source;  // where the function starts, e.g. "model.py:12 in forward: x = self.fc(x)"
  std::string guard;   // that failed, so that Dynamo captured the graph; empty at its first capture
  // Parts of the key that differ from the graph's last program, e.g. "symbol s0 (x.shape[0]): 8 ->
  // 9". Empty: the first program of its graph.
  std::vector<std::string> changes;
};

// The last of them. Any thread may use it.
class History {
 public:
  void add(CompileRecord record) {
    const std::lock_guard lock(mutex_);
    records_.push_back(std::move(record));
    if (records_.size() > kMost) records_.pop_front();
  }
  // Oldest first.
  std::vector<CompileRecord> records() const {
    const std::lock_guard lock(mutex_);
    return {records_.begin(), records_.end()};
  }

 private:
  static constexpr size_t kMost = 10'000;

  mutable std::mutex mutex_;
  std::deque<CompileRecord> records_;
};

}  // namespace torch_pjrt::compile
