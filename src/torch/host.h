// What the language around us (Python) does for the lazy device.
#pragma once

#include <complex>
#include <exception>
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
  // Throws an Error, or what HostLock::check_interrupt() threw, as the language's own exception
  // that PyTorch hands on; does nothing for others. Null: there is none.
  std::function<void(const std::exception_ptr&)> raise;
  // The lock of the calling thread.
  std::function<std::unique_ptr<run::HostLock>()> lock;
};

// Set once, when the device is registered.
void set_host(Host host);
const Host& host();

// What `f` gives; what it throws is raised as the language's own.
template <class F>
auto raising(const F& f) {
  try {
    return f();
  } catch (...) {
    if (host().raise) host().raise(std::current_exception());
    throw;
  }
}

}  // namespace torch_pjrt::lazy
