// One call of a compiled program on tensors of the lazy device.
#pragma once

#include <span>
#include <vector>

#include "torch/call.h"

namespace torch_pjrt::lazy {

// Starts the program, which was made for the device, and doesn't wait for it. Inputs that are
// pending are run first, as one program; nothing is copied. Inputs that the graph mutates have
// their new values when it returns. Any thread may call it.
std::vector<aten::Result> call(compile::Program& program, std::span<const aten::Argument> arguments,
                               run::HostLock& lock);

// Has the program for a call with these arguments compiled by the Warmup's threads. Runs nothing.
void queue(compile::Program& program, std::span<const aten::Argument> arguments,
           compile::Warmup& warmup, run::HostLock& lock);

}  // namespace torch_pjrt::lazy
