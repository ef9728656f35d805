// Whether the values that a program on the device met are such that eager would have raised.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lower/lower.h"
#include "pjrt/buffer.h"

namespace torch_pjrt::lazy {

// Of one run of a program, from before its start. Any thread may use it.
class Check {
 public:
  // What the node of a problem is, for its message.
  using Describe = std::function<std::string(int32_t node)>;
  // Before it is started.
  void describe_by(Describe describe) { describe_ = std::move(describe); }

  // `status` is the program's: 0 or the number of one of `problems`, and the value that it names.
  void start(std::vector<lower::Problem> problems, pjrt::Buffer status);

  // Waits for the program, which was started. Throws c10::Error or c10::IndexError, as eager would
  // have; each time.
  void raise();
  // The same, if nobody has raised it yet.
  void raise_first();
  // Whether it is known, without waiting, that there is nothing to raise.
  bool is_fine();

 private:
  using Status = std::array<int64_t, 2>;
  const Status& status();  // mutex_ is held

  Describe describe_;
  std::mutex mutex_;
  std::vector<lower::Problem> problems_;
  std::optional<pjrt::Buffer> buffer_;  // from its start until it is read
  std::optional<Status> status_;
  bool is_raised_ = false;
};

// In the order in which the programs were started.
using Checks = std::vector<std::shared_ptr<Check>>;

// Those of `more` that aren't fine and aren't among them.
void add(Checks& checks, const Checks& more);

}  // namespace torch_pjrt::lazy
