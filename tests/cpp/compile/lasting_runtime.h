// A Runtime as a process has it: never destroyed, and reachable, so that it is no leak.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "compile/runtime.h"

namespace torch_pjrt::compile {

inline Runtime& lasting_runtime(Runtime::Options options = {}) {
  static auto& all = *std::make_unique<std::vector<Runtime*>>().release();
  all.push_back(std::make_unique<Runtime>(std::move(options)).release());
  return *all.back();
}

}  // namespace torch_pjrt::compile
