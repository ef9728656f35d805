#include "torch/device_call.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "base/error.h"
#include "torch/generator.h"
#include "torch/outputs.h"
#include "torch/run.h"
#include "torch/runtime.h"
#include "torch/storage.h"
#include "torch/tensor.h"

namespace torch_pjrt::lazy {
namespace {

class Call {
 public:
  Call(compile::Program& program, std::span<const aten::Argument> arguments, run::HostLock& lock)
      : program_(program), graph_(program.graph()), given_(arguments), lock_(lock) {}

  void queue(compile::Warmup& warmup) {
    read_arguments();
    lower::Signature signature{program_.bind(arguments_), {}};
    for (const aten::Argument& a : given_) signature.input_orders.push_back(order(a));
    const run::Reacquire reacquire(lock_);
    lock_.release();
    program_.queue(signature, aten::matmul_precision(), warmup);
  }

  std::vector<aten::Result> run() {
    read_arguments();
    lower::Signature signature{program_.bind(arguments_), {}};
    symbols_ = signature.symbols;
    gather();
    for (const auto& array : arrays_) {
      signature.input_orders.push_back(array ? array->order() : lower::Order());
    }
    const auto compiled = [&] {
      const run::Reacquire reacquire(lock_);
      lock_.release();
      return program_.compiled(signature, aten::matmul_precision(), lock_);
    }();
    std::vector<Number> scalars;
    for (const Scalar& s : graph_.scalars) {
      scalars.push_back(aten::number_of(s, graph_.exprs, symbols_));
    }
    const std::vector<int64_t> draws = take_draws(std::nullopt, graph_.draws.size());
    for (const auto& array : arrays_) {
      if (array) add(checks_, array->checks());
    }
    const auto check = std::make_shared<Check>();
    check->describe_by([graph = program_.shared_graph()](int32_t node) {
      return aten::describe_node(*graph, static_cast<size_t>(node));
    });
    // What is mutated keeps its old values where the check fails.
    checks_of_outputs_ = checks_;
    if (has_status(*compiled)) checks_of_outputs_.push_back(check);
    mutate(*compiled);
    try {
      results_ = execute(*compiled, {arrays_, spent_, scalars, draws}, check);
    } catch (...) {
      restore();
      throw;
    }
    return make_outputs(*compiled);
  }

 private:
  void read_arguments() {
    for (size_t i = 0; i < given_.size(); ++i) {
      compile::Argument argument;
      argument.number = given_[i].number;
      if (const at::Tensor* t = given_[i].tensor) {
        if (!is_on_device(*t) && t->dim() > 0) {
          fail(Code::kInvalid, aten::describe_input(graph_, i), " is on ", t->device().str(),
               ", and others on pjrt: move it there with .to(\"pjrt\")");
        }
        argument.is_tensor = true;
        argument.tensor = {nullptr,
                           aten::from_torch(t->scalar_type()),
                           {t->sizes().data(), t->sizes().size()},
                           {t->strides().data(), t->strides().size()}};
      }
      arguments_.push_back(argument);
    }
  }

  // That in which the argument's array has its dims, or will have them.
  static lower::Order order(const aten::Argument& argument) {
    if (!argument.tensor) return {};
    const at::Tensor& t = *argument.tensor;
    if (is_on_device(t)) {
      const std::lock_guard lock(mutex());
      const Value value = read(t);
      if (!value.node->is_pending()) return value.node->arrays[value.index]->order();
    }
    return order_of(Geometry::of(*t.unsafeGetTensorImpl()));
  }

  void gather() {
    std::vector<const at::Tensor*> tensors;
    for (const aten::Argument& a : given_) {
      if (a.tensor && is_on_device(*a.tensor)) tensors.push_back(a.tensor);
    }
    const auto arrays = arrays_of(tensors);
    size_t next = 0;
    for (const aten::Argument& a : given_) {
      if (!a.tensor) {
        arrays_.emplace_back();
      } else {
        arrays_.push_back(is_on_device(*a.tensor) ? arrays[next++] : to_device(*a.tensor));
      }
    }
  }

  at::Tensor output(const lower::ProgramResult& result, pjrt::Buffer buffer) const {
    const compile::ResultForm form = compile::result_form(graph_, result, symbols_);
    const auto geometry = [&](const Dims& dims, const Dims& strides) {
      return Geometry{form.dtype, at::DimVector(dims.begin(), dims.end()),
                      at::DimVector(strides.begin(), strides.end()), 0};
    };
    Value value = data(std::make_shared<Array>(Type{form.dtype, result.dims}, result.order,
                                               std::move(buffer), checks_of_outputs_));
    const std::lock_guard lock(mutex());
    if (form.kind == compile::ResultForm::Kind::kDense) {
      return make_tensor(std::move(value), geometry(form.dims, form.strides));
    }
    const at::Tensor memory =
        make_tensor(std::move(value), geometry(form.memory_dims, form.memory_strides));
    if (form.kind == compile::ResultForm::Kind::kExpanded) {
      return memory.as_strided(form.dims, form.strides);
    }
    at::Tensor with_gaps = empty(form.dims, form.strides, aten::to_torch(form.dtype));
    write(with_gaps.as_strided(form.memory_dims, form.strides), read(memory));
    return with_gaps;
  }

  // A tensor that the program mutates.
  struct Mutated {
    const at::Tensor* tensor;
    std::shared_ptr<Array> array;  // its new elements
    Value before;                  // of the storage; null where that isn't on the device
    Geometry geometry;             // of `before`
  };

  // Whether nothing but the tensor's own storage and this call hold the input's array, which the
  // tensor is about to lose. mutex() is held.
  bool is_spent(size_t input) const {
    const auto& array = arrays_[input];
    const at::Tensor& tensor = *given_[input].tensor;
    if (!is_on_device(tensor)) return array.use_count() == 1;
    const Value& held = storage_of(tensor).value();
    const bool is_held = held && !held.node->is_pending() && held.node->arrays[held.index] == array;
    return is_held ? array.use_count() == 2 && held.node.use_count() == 1 : array.use_count() == 1;
  }

  // Gives the mutated tensors their new values before the program is started, so that no other
  // thread can meet an old one whose memory the program takes.
  void mutate(const compile::Compiled& compiled) {
    spent_.resize(arrays_.size());
    for (const lower::ProgramResult& result : compiled.program.results) {
      if (result.kind != lower::ProgramResult::Kind::kMutation) continue;
      const auto input = static_cast<size_t>(graph_.mutations[result.index].input);
      const at::Tensor& tensor = *given_[input].tensor;
      if (tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
      Mutated m{
          &tensor,
          std::make_shared<Array>(Type{result.type.dtype, result.dims}, result.order, checks_),
          {},
          {}};
      const std::lock_guard lock(mutex());
      spent_[input] = is_spent(input);
      if (is_on_device(tensor)) {
        m.before = storage_of(tensor).value();
        m.geometry = storage_of(tensor).geometry();
        write(tensor, data(m.array));
      }
      mutated_.push_back(std::move(m));
    }
  }

  // After the program could not be started.
  void restore() {
    const auto error = std::current_exception();
    const std::lock_guard lock(mutex());
    for (Mutated& m : mutated_) {
      m.array->give(error);
      if (m.before) storage_of(*m.tensor).set(m.before, m.geometry);
    }
  }

  void finish(const Mutated& m, pjrt::Buffer buffer) const {
    m.array->give(std::move(buffer));
    if (is_on_device(*m.tensor)) return;
    // A tensor on the CPU has its new value when the call returns.
    at::Tensor host = at::empty(m.tensor->sizes(), m.tensor->options().requires_grad(false));
    {
      const run::Reacquire reacquire(lock_);
      lock_.release();
      m.array->to_host(host.unsafeGetTensorImpl()->mutable_data(), host.nbytes());
    }
    const c10::AutoGradMode no_grad(false);
    m.tensor->copy_(host);
  }

  std::vector<aten::Result> make_outputs(const compile::Compiled& compiled) {
    using Kind = lower::ProgramResult::Kind;
    std::vector<aten::Result> computed(graph_.outputs.size());
    const auto& forms = compiled.program.results;
    size_t next_mutated = 0;
    for (size_t i = 0; i < forms.size(); ++i) {
      if (forms[i].kind == Kind::kOutput) {
        computed[forms[i].index] = output(forms[i], std::move(results_[i]));
      } else if (forms[i].kind == Kind::kMutation) {
        finish(mutated_[next_mutated++], std::move(results_[i]));
      }
    }
    return aten::add_outputs(graph_, symbols_, given_, std::move(computed));
  }

  compile::Program& program_;
  const Graph& graph_;
  std::span<const aten::Argument> given_;
  run::HostLock& lock_;
  std::vector<compile::Argument> arguments_;
  std::vector<int64_t> symbols_;
  std::vector<std::shared_ptr<Array>> arrays_;
  std::vector<bool> spent_;       // of arrays_
  std::vector<Mutated> mutated_;  // in the program's order
  std::vector<pjrt::Buffer> results_;
  Checks checks_;  // of what the program read
  Checks checks_of_outputs_;
};

}  // namespace

void queue(compile::Program& program, std::span<const aten::Argument> arguments,
           compile::Warmup& warmup, run::HostLock& lock) {
  Call(program, arguments, lock).queue(warmup);
}

std::vector<aten::Result> call(compile::Program& program, std::span<const aten::Argument> arguments,
                               run::HostLock& lock) {
  return Call(program, arguments, lock).run();
}

}  // namespace torch_pjrt::lazy
