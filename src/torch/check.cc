#include "torch/check.h"

#include <algorithm>

#include "torch/outputs.h"

namespace torch_pjrt::lazy {

void Check::start(std::vector<lower::Problem> problems, pjrt::Buffer status) {
  const std::lock_guard lock(mutex_);
  problems_ = std::move(problems);
  buffer_ = std::move(status);
}

const Check::Status& Check::status() {
  if (!status_) {
    Status read = {0, 0};
    buffer_->to_host(read.data(), sizeof read);
    status_ = read;
    buffer_.reset();
  }
  return *status_;
}

void Check::raise() {
  const std::lock_guard lock(mutex_);
  const auto [problem, value] = status();
  is_raised_ = problem != 0;
  if (!is_raised_) return;
  const lower::Problem& found = problems_.at(static_cast<size_t>(problem - 1));
  aten::raise_problem(found, value, describe_ && found.node >= 0 ? describe_(found.node) : "");
}

void Check::raise_first() {
  {
    const std::lock_guard lock(mutex_);
    if (is_raised_) return;
  }
  raise();
}

bool Check::is_fine() {
  const std::lock_guard lock(mutex_);
  if (!status_ && !(buffer_ && buffer_->ready().is_ready())) return false;
  return status()[0] == 0;
}

void add(Checks& checks, const Checks& more) {
  for (const std::shared_ptr<Check>& check : more) {
    if (std::ranges::find(checks, check) == checks.end() && !check->is_fine()) {
      checks.push_back(check);
    }
  }
}

}  // namespace torch_pjrt::lazy
