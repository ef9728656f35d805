// A compiled program, loaded and ready to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/type.h"
#include "pjrt/api.h"
#include "pjrt/buffer.h"
#include "pjrt/event.h"

namespace torch_pjrt::pjrt {

// Any number of threads may run it at once. The client outlives it.
class Executable {
 public:
  // Takes ownership, also when it throws.
  Executable(Api api, PJRT_LoadedExecutable* executable);

  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  size_t num_outputs() const { return num_outputs_; }

  // Runs the program on the first device and appends num_outputs() buffers to `outputs`; a caller
  // that keeps the vector's capacity between calls saves an allocation. The arguments named in
  // `non_donatable`, by index, are kept although the program may reuse their memory. The program
  // may still be running when this returns, until the event is complete: till then the memory of
  // arguments made without a copy must stay. On an error nothing runs and `outputs` is unchanged.
  //
  // The plugin compares arguments with the program's parameters by their size in bytes at best:
  // dtypes and dims are the caller's to check.
  Event execute(std::span<PJRT_Buffer* const> arguments, std::span<const int64_t> non_donatable,
                std::vector<Buffer>& outputs) const;

  // The loaded program in the plugin's own format, which only the same build of the plugin on the
  // same kind of device and processor may load (Client::deserialize). Throws Error(kPlugin) where
  // the plugin can't.
  std::string serialize() const;

  // The following ask the plugin at each call; nullopt where it doesn't tell.
  std::optional<std::vector<Type>> output_types() const;
  // The plugin's own estimate of the work of one run. XLA leaves out a zero: then it is nullopt.
  std::optional<double> flops() const;
  std::optional<int64_t> code_size_bytes() const;

 private:
  const Api& api() const { return loaded_.get_deleter().api; }

  std::unique_ptr<PJRT_LoadedExecutable, Deleter<&PJRT_Api::PJRT_LoadedExecutable_Destroy>> loaded_;
  std::unique_ptr<PJRT_Executable, Deleter<&PJRT_Api::PJRT_Executable_Destroy>> executable_;
  size_t num_outputs_ = 0;
};

}  // namespace torch_pjrt::pjrt
