// Makes device="pjrt" known to PyTorch.
#pragma once

#include "torch/host.h"

namespace torch_pjrt::lazy {

// Takes PyTorch's one place for a device from outside (PrivateUse1): its guard, hooks, allocator
// and kernels. The caller gives it its name. Starts nothing. Gives false where another extension
// has taken it; then nothing is changed. Called once.
bool register_device(Host host);

}  // namespace torch_pjrt::lazy
