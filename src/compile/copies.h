// Whom to tell which inputs had to be copied.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "run/copied.h"

namespace torch_pjrt::compile {

// An input by the user's name for it.
struct CopiedInput {
  std::string name;
  run::CopyReason reason;
};

// Any thread may use it.
class CopyReports {
 public:
  // Called on the calling thread, with the host's lock, at the end of a call. What it throws is
  // what the call throws.
  using Sink = std::function<void(const std::vector<CopiedInput>&)>;

  void set(Sink sink) {
    const std::lock_guard lock(mutex_);
    sink_ = std::move(sink);
  }
  void write(const std::vector<CopiedInput>& inputs) const {
    Sink sink;
    {
      const std::lock_guard lock(mutex_);
      sink = sink_;
    }
    if (sink) sink(inputs);
  }

 private:
  mutable std::mutex mutex_;
  Sink sink_;
};

}  // namespace torch_pjrt::compile
