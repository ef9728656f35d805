#include "torch/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace torch_pjrt::aten {

std::vector<int64_t> take_draws(size_t count) {
  std::vector<int64_t> numbers;
  if (count == 0) return numbers;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  auto& cpu = *generator.get<at::CPUGeneratorImpl>();
  numbers.reserve(2 * count);
  for (size_t k = 0; k < 2 * count; ++k) numbers.push_back(static_cast<int64_t>(cpu.random64()));
  return numbers;
}

}  // namespace torch_pjrt::aten
