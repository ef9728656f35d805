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
  // `kind` is "graph", "stablehlo", "compile", "cache" or "warning". It is called on the compiling
  // thread.
  using Sink = std::function<void(const std::string& kind, const std::string& text)>;

  // An empty sink turns the log off. `wants_all`: not only what is written without asking
  // enabled().
  void set(Sink sink, bool wants_all = true) {
    const std::lock_guard lock(mutex_);
    enabled_ = sink && wants_all;
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
