// Executables, loaded and not: a program's signature.
#pragma once

#include <pjrt_c_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fake_plugin/object.h"
#include "fake_plugin/program.h"

namespace torch_pjrt::fake {

// One base, since both are of one kind.
struct AnyExecutable : Object {
  explicit AnyExecutable(PJRT_Client* client) : Object(Kind::kExecutable, client) {}

  std::shared_ptr<const Program> program;
};

// PJRT_Client_Compile.
void compile(PJRT_Client_Compile_Args& args);

}  // namespace torch_pjrt::fake

struct PJRT_LoadedExecutable : torch_pjrt::fake::AnyExecutable {
  using AnyExecutable::AnyExecutable;

  std::atomic<bool> deleted{false};
};

// The arrays are what its functions return pointers to.
struct PJRT_Executable : torch_pjrt::fake::AnyExecutable {
  using AnyExecutable::AnyExecutable;

  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_dims;
  std::vector<size_t> output_ranks;
  std::vector<const char*> memory_kinds;
  std::vector<size_t> memory_kind_sizes;
  PJRT_NamedValue flops = {};
};
