#include "torch/runtime.h"

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
  return std::make_unique<compile::Runtime>(std::move(options));
}

}  // namespace

compile::Runtime& runtime() {
  static compile::Runtime& instance = *make_runtime().release();
  return instance;
}

}  // namespace torch_pjrt::aten
