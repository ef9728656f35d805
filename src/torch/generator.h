// The random generator of device="pjrt".
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace torch_pjrt::lazy {

at::Generator make_generator();
const at::Generator& default_generator();

// Two numbers for each draw from the generator, or the default one.
std::vector<int64_t> take_draws(const std::optional<at::Generator>& generator, size_t count);

}  // namespace torch_pjrt::lazy
