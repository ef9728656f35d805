// The kernel of every op on the lazy device that has none of its own.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

namespace torch_pjrt::lazy {

// Records the op; where it can't be, runs it on the CPU.
void record_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

// How often each op ran on the CPU since the start or the last reset.
std::map<std::string, int64_t> host_ops();
void reset_host_ops();

}  // namespace torch_pjrt::lazy
