// What the language around us (Python) does for the lazy device.
#pragma once

#include <complex>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "run/host_lock.h"
#include "torch/signature.h"

namespace torch_pjrt::lazy {

// An argument of an op, by its schema: a tensor is where it lies; dtypes, layouts and memory
// formats are torch's numbers for them.
struct TraceArgument {
  std::variant<std::monostate, Geometry, bool, int64_t, double, std::complex<double>, std::string,
               std::vector<TraceArgument>>
      v;
};

struct Traced {
  Graph graph;                        // its first inputs are the op's tensors
  std::vector<at::Tensor> constants;  // CPU tensors: its last inputs
  bool direct = false;  // the graph is the op itself, with its numbers as scalars, in their order
};

// Each is called without mutex(), whether Python's lock is held or not. Throws what it likes.
struct Host {
  std::function<std::string()> plugin;  // the path of the plugin
  // The op's graph. `mutates`: it may write to its operands.
  std::function<Traced(const std::string& op, bool mutates, const std::vector<TraceArgument>&)>
      trace;
  std::function<void(const std::string& op, const std::string& why)> warn;  // runs on the CPU
  std::function<std::string()> line;  // of the user's, that is running; null: not asked for
  // The lock of the calling thread.
  std::function<std::unique_ptr<run::HostLock>()> lock;
};

// Set once, when the device is registered.
void set_host(Host host);
const Host& host();

}  // namespace torch_pjrt::lazy
