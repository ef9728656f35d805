// One call of a compiled program on PyTorch's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "compile/program.h"

namespace torch_pjrt::aten {

// A tensor, or an int.
struct Argument {
  const at::Tensor* tensor = nullptr;
  int64_t number = 0;
};

// Nothing, a tensor or a number, as the graph's output is.
using Result = std::variant<std::monostate, at::Tensor, bool, int64_t, double>;

// Runs the program; inputs that the graph mutates hold their new values when it returns, and after
// an Error of the plugin anything. Throws c10::Error or c10::IndexError, as eager does, for values
// that an op can't take; then mutated inputs are unchanged. The arguments' tensors stay alive and
// as they are until it returns, also while the lock is released. Any thread may call it.
std::vector<Result> call(compile::Program& program, std::span<const Argument> arguments,
                         run::HostLock& lock);

// Program::store() for these arguments, which are read as call() reads them. Nothing is run.
compile::StoredPrograms::Value store(compile::Program& program, std::span<const Argument> arguments,
                                     run::HostLock& lock);

// Has the program for a call with these arguments compiled by the Warmup's threads. Runs nothing,
// changes nothing and draws no random numbers.
void queue(compile::Program& program, std::span<const Argument> arguments, compile::Warmup& warmup,
           run::HostLock& lock);

}  // namespace torch_pjrt::aten
