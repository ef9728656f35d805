#include "torch/call.h"

#include <c10/core/GradMode.h>

#include <utility>

#include "base/error.h"
#include "torch/outputs.h"
#include "torch/random.h"
#include "torch/runtime.h"
#include "torch/tensor.h"

namespace torch_pjrt::aten {
namespace {

// The state of one call, with its steps in their order.
class Call {
 public:
  Call(compile::Program& program, std::span<const Argument> arguments, run::HostLock& lock)
      : program_(program), graph_(program.graph()), lock_(lock), given_(arguments) {}

  std::vector<Result> run() {
    read_arguments();
    for (const Mutation& m : graph_.mutations) prepare_mutated(m.input);
    find_entry();
    symbols_ = program_.symbols(*found_.entry, arguments_);
    make_result_memory();
    const std::vector<int64_t> draws = take_draws(graph_.draws.size());
    const auto copied = program_.run(found_, arguments_, symbols_, memory_pointers_, lock_, draws);
    copied_.insert(copied_.end(), copied.begin(), copied.end());
    check_status();
    const c10::AutoGradMode no_grad(false);
    write_back();
    if (!copied_.empty()) program_.report(copied_);
    return make_outputs();
  }

  compile::StoredPrograms::Value store() {
    read_arguments();
    make_dense();
    return program_.store(arguments_, matmul_precision(), lock_);
  }

  void queue(compile::Warmup& warmup) {
    read_arguments();
    make_dense();
    program_.queue(arguments_, matmul_precision(), warmup, lock_);
  }

 private:
  // Our own copy of an argument in place of the caller's.
  struct Owned {
    size_t input;
    at::Tensor tensor;
  };
  void substitute(size_t i, at::Tensor tensor) {
    owned_.push_back({i, std::move(tensor)});
    arguments_[i].tensor = host_tensor(owned_.back().tensor);
  }

  void read_arguments() {
    arguments_.resize(given_.size());
    for (size_t i = 0; i < given_.size(); ++i) {
      arguments_[i].number = given_[i].number;
      arguments_[i].is_tensor = given_[i].tensor != nullptr;
      if (!arguments_[i].is_tensor) continue;
      try {
        read_tensor(i, *given_[i].tensor);
      } catch (const Error& e) {
        fail(e.code(), describe_input(graph_, i), ": ", e.what());
      }
    }
  }

  void prepare_mutated(int32_t i) {
    const size_t index = static_cast<size_t>(i);
    if (index >= given_.size() || !arguments_[i].is_tensor) return;  // found out later
    const at::Tensor& tensor = *given_[i].tensor;
    // Raises where an inference tensor mustn't change; it has no version to raise.
    if (tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    // Memory that is shared only until it is written to is the tensor's own from now on.
    if (is_plain(tensor)) {
      arguments_[i].tensor.data = tensor.unsafeGetTensorImpl()->mutable_data();
    }
  }

  void read_tensor(size_t i, const at::Tensor& tensor) {
    if (is_plain(tensor)) {
      arguments_[i].tensor = host_tensor(tensor);
    } else {
      substitute(i, plain(tensor));
      count_copy(i, run::CopyReason::kLazy);
    }
  }

  void count_copy(size_t i, run::CopyReason reason) {
    copied_.push_back({static_cast<int32_t>(i), reason});
    const run::HostTensor& t = arguments_[i].tensor;
    const Type type{t.dtype, Dims(t.dims.begin(), t.dims.end())};
    run::Stats& stats = program_.runtime().stats();
    stats.add(&run::Stats::copied_inputs);
    stats.add(&run::Stats::host_to_device_bytes, type.num_bytes());
  }

  void find_entry() {
    const lower::Precision precision = matmul_precision();
    found_.entry = program_.match(arguments_, precision);
    if (!found_.entry && make_dense()) found_.entry = program_.match(arguments_, precision);
    if (!found_.entry) found_ = program_.find(arguments_, precision, lock_);
  }

  // Copies what can't be passed as it lies in memory; whether there was any.
  bool make_dense() {
    const size_t before = owned_.size();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (!arguments_[i].is_tensor) continue;
      const run::HostTensor& t = arguments_[i].tensor;
      const Dims dims(t.dims.begin(), t.dims.end());
      if (lower::dense_order(dims, Dims(t.strides.begin(), t.strides.end()))) continue;
      // What was resolved into a tensor of our own is dense already.
      substitute(i, given_[i].tensor->detach().clone(at::MemoryFormat::Contiguous));
      count_copy(i, run::CopyReason::kNotDense);
    }
    return owned_.size() > before;
  }

  void make_result_memory() {
    const auto& forms = found_.entry->results;
    memory_.reserve(forms.size());
    memory_pointers_.reserve(forms.size());
    for (const compile::ResultForm& form : forms) {
      if (form.kind == compile::ResultForm::Kind::kInput) {
        memory_.emplace_back();
        memory_pointers_.push_back(const_cast<void*>(arguments_[form.index].tensor.data));
        continue;
      }
      if (form.kind == compile::ResultForm::Kind::kStatus) {
        memory_.emplace_back();
        memory_pointers_.push_back(&status_);
        continue;
      }
      const bool is_output = form.kind == compile::ResultForm::Kind::kDense;
      memory_.push_back(is_output ? empty(form.dims, form.strides, form.dtype)
                                  : empty(form.memory_dims, form.memory_strides, form.dtype));
      memory_pointers_.push_back(memory_.back().unsafeGetTensorImpl()->mutable_data());
    }
  }

  // Raises what eager would for the values of this call.
  void check_status() const {
    if (status_.problem == 0) return;
    raise_problem(found_.entry->problems.at(status_.problem - 1), status_.value);
  }

  // What was written to our copies of mutated inputs.
  void write_back() {
    for (const Mutation& m : graph_.mutations) {
      for (const Owned& owned : owned_) {
        if (owned.input == static_cast<size_t>(m.input)) copy_back(owned);
      }
    }
  }

  void copy_back(const Owned& owned) {
    given_[owned.input].tensor->copy_(owned.tensor);
    program_.runtime().stats().add(&run::Stats::device_to_host_bytes,
                                   static_cast<int64_t>(owned.tensor.nbytes()));
  }

  at::Tensor result(size_t i) {
    const compile::ResultForm& form = found_.entry->results[i];
    switch (form.kind) {
      case compile::ResultForm::Kind::kDense:
        return std::move(memory_[i]);
      case compile::ResultForm::Kind::kExpanded:
        return memory_[i].as_strided(form.dims, form.strides);
      case compile::ResultForm::Kind::kInput:
      case compile::ResultForm::Kind::kStatus:
      case compile::ResultForm::Kind::kGaps:
        break;
    }
    at::Tensor output = empty(form.dims, form.strides, form.dtype);
    // Expanded dims hold each element once.
    output.as_strided(form.memory_dims, form.strides).copy_(memory_[i]);
    return output;
  }

  std::vector<Result> make_outputs() {
    std::vector<Result> computed(graph_.outputs.size());
    for (size_t i = 0; i < memory_.size(); ++i) {
      const compile::ResultForm& form = found_.entry->results[i];
      if (memory_[i].defined()) computed[form.index] = result(i);
    }
    return add_outputs(graph_, symbols_, given_, std::move(computed));
  }

  compile::Program& program_;
  const Graph& graph_;
  run::HostLock& lock_;
  std::span<const Argument> given_;
  std::vector<compile::Argument> arguments_;
  std::vector<Owned> owned_;
  std::vector<run::Copied> copied_;
  compile::Program::Found found_{nullptr, run::Origin::kMemory};
  std::vector<int64_t> symbols_;
  std::vector<at::Tensor> memory_;  // of the results; undefined where that is another's
  std::vector<void*> memory_pointers_;
  struct alignas(pjrt::kHostAlignment) {
    int64_t problem = 0;  // 0, or 1 + its index
    int64_t value = 0;
  } status_;
};

}  // namespace

std::vector<Result> call(compile::Program& program, std::span<const Argument> arguments,
                         run::HostLock& lock) {
  return Call(program, arguments, lock).run();
}

compile::StoredPrograms::Value store(compile::Program& program, std::span<const Argument> arguments,
                                     run::HostLock& lock) {
  return Call(program, arguments, lock).store();
}

void queue(compile::Program& program, std::span<const Argument> arguments, compile::Warmup& warmup,
           run::HostLock& lock) {
  Call(program, arguments, lock).queue(warmup);
}

}  // namespace torch_pjrt::aten
