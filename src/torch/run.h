// Runs pending values, and moves arrays between the host and the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>

#include "torch/pending_program.h"

namespace torch_pjrt::lazy {

// None of these is called with mutex() held; each may be called with Python's lock or without, and
// gives it up while it waits.

// The tensor's elements as they lie in memory: pending ones are on their way when it returns.
std::shared_ptr<Array> array_of(const at::Tensor& tensor);
// Of several: those that are pending run as one program.
std::vector<std::shared_ptr<Array>> arrays_of(std::span<const at::Tensor* const> tensors);
// Starts all that this thread has recorded. Its errors surface where a result is read.
void run_all();
// The same, and waits until all that was started is complete; throws what a read would.
void synchronize();
// Whether a pending node's group has become too large, or the way to it too long. mutex() is held.
bool is_beyond_bounds(Node& node);
// Then cuts it.
void bound_group(const std::shared_ptr<Node>& node);

// Its elements as a contiguous CPU tensor.
at::Tensor to_host(const at::Tensor& tensor);
// The elements of a CPU tensor, which may change as soon as this returns.
std::shared_ptr<Array> to_device(const at::Tensor& tensor);

// Where the elements of the tensor's storage begin, once they are there: memory that no other
// storage has, until this one is written to or ends; 0 where there are no elements. Throws
// Error(kUnsupported) where the plugin's memory isn't the host's.
uintptr_t address_of(const at::Tensor& tensor);

// The device that programs run on; started at its first use.
compile::Device& device();
// The path of its plugin.
const std::string& plugin_path();

// Throws, once, what a Check of a program that was started before raises.
void check_values();

struct Arguments {
  std::span<const std::shared_ptr<Array>> inputs;
  const std::vector<bool>& spent;  // of each input, or none: the program may take its memory
  std::span<const Number> scalars;
  std::span<const int64_t> draws;
};

// Starts a compiled program; gives its results, without the status, with which it starts `check`.
std::vector<pjrt::Buffer> execute(compile::Compiled& compiled, const Arguments& arguments,
                                  const std::shared_ptr<Check>& check);

// Whether the program checks values: then its status is its last result.
bool has_status(const compile::Compiled& compiled);

}  // namespace torch_pjrt::lazy
