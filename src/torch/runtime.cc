#include "torch/runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <memory>
#include <string>
#include <utility>

#include "base/config.h"

namespace torch_pjrt::aten {
namespace {

std::unique_ptr<compile::Runtime> make_runtime() {
  compile::Runtime::Options options;
  if (std::string folder = config::cache_folder(); !folder.empty()) {
    options.disk = cache::Disk::Options{std::move(folder), config::cache_max_bytes(),
                                        config::shared_cache_folder()};
  }
  options.max_program_bytes = config::max_program_bytes();
  options.num_threads = at::get_num_threads;
  return std::make_unique<compile::Runtime>(std::move(options));
}

}  // namespace

compile::Runtime& runtime() {
  static compile::Runtime& instance = *make_runtime().release();
  return instance;
}

lower::Precision matmul_precision() {
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::HIGHEST:
      return lower::Precision::kHighest;
    case at::Float32MatmulPrecision::HIGH:
      return lower::Precision::kHigh;
    case at::Float32MatmulPrecision::MEDIUM:
      return lower::Precision::kDefault;
  }
  return lower::Precision::kHighest;
}

}  // namespace torch_pjrt::aten
