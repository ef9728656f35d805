#include "torch/runtime.h"

#include <memory>
#include <string>
#include <utility>

#include "base/config.h"

namespace torch_pjrt::aten {
namespace {

std::unique_ptr<compile::Runtime> make_runtime() {
  std::string folder = config::cache_folder();
  if (folder.empty()) return std::make_unique<compile::Runtime>();
  return std::make_unique<compile::Runtime>(cache::Disk::Options{
      std::move(folder), config::cache_max_bytes(), config::shared_cache_folder()});
}

}  // namespace

compile::Runtime& runtime() {
  static compile::Runtime& instance = *make_runtime().release();
  return instance;
}

}  // namespace torch_pjrt::aten
