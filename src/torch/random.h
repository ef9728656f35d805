// Random numbers for a call, from PyTorch's generator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace torch_pjrt::aten {

// Two numbers for each draw from the CPU's default generator, as eager takes its own. Any thread
// may call it; the numbers of one call are successive.
std::vector<int64_t> take_draws(size_t count);

}  // namespace torch_pjrt::aten
