// Where graphs, programs and reasons for compiling go when somebody wants to see them.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace torch_pjrt::compile {

// Any thread may use it.
class Log {
 public:
  // `kind` is "graph", "stablehlo" or "compile". It is called on the compiling thread.
  using Sink = std::function<void(const std::string& kind, const std::string& text)>;

  // An empty sink turns the log off.
  void set(Sink sink) {
    const std::lock_guard lock(mutex_);
    enabled_ = static_cast<bool>(sink);
    sink_ = std::move(sink);
  }
  // Asked before a text is made.
  bool enabled() const { return enabled_; }
  void write(const std::string& kind, const std::string& text) const {
    Sink sink;
    {
      const std::lock_guard lock(mutex_);
      sink = sink_;
    }
    if (sink) sink(kind, text);
  }

 private:
  std::atomic<bool> enabled_ = false;
  mutable std::mutex mutex_;
  Sink sink_;
};

}  // namespace torch_pjrt::compile
