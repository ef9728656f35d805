#include "torch/record.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "torch/generator.h"
#include "torch/recorded_call.h"
#include "torch/run.h"
#include "torch/storage.h"
#include "torch/tensor.h"

namespace torch_pjrt::lazy {
namespace {

using c10::IValue;
using torch::jit::Stack;

// --- on the CPU

std::mutex host_mutex;
auto& host_counts() {
  static auto& counts = *new std::map<std::string, int64_t>;
  return counts;
}

// An op whose result's sizes depend on elements is a read, of which nobody has to be warned.
void run_on_host(const c10::OperatorHandle& op, const OpFacts& facts, const std::string& why,
                 Stack* stack) {
  at::native::cpu_fallback(op, stack);
  static auto& warned = *new std::set<std::string>;
  bool is_first = false;
  {
    const std::lock_guard lock(host_mutex);
    ++host_counts()[facts.name];
    is_first = !facts.is_data_dependent && warned.insert(facts.name).second;
  }
  if (is_first) host().warn(facts.name, why);
}

// An op that gives nothing looks at its operands, as .item() does: nobody has to be warned.
void look(const c10::OperatorHandle& op, Stack* stack) { at::native::cpu_fallback(op, stack); }

// --- views

// A tensor without elements that lies as the given one does.
at::Tensor as_meta(const at::Tensor& tensor) {
  const Geometry g = Geometry::of(*tensor.unsafeGetTensorImpl());
  at::Tensor meta = at::detail::empty_strided_meta(
      {static_cast<int64_t>(storage_of(tensor).nbytes() / byte_size(g.dtype))}, {1},
      tensor.scalar_type());
  auto* impl = meta.unsafeGetTensorImpl();
  impl->set_storage_offset(g.offset);
  impl->set_sizes_and_strides(g.dims, g.strides);
  return meta;
}

at::Tensor view_like(const at::Tensor& base, const at::Tensor& meta) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(), meta.dtype());
  auto* impl = view.unsafeGetTensorImpl();
  impl->set_storage_offset(meta.storage_offset());
  impl->set_sizes_and_strides(meta.sizes(), meta.strides());
  return view;
}

// An op that gives views of its first argument: torch computes where they lie.
void make_views(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  IValue& self = (*stack)[stack->size() - count];
  const at::Tensor base = self.toTensor();
  self = as_meta(base);
  op.callBoxed(stack);
  IValue& result = stack->back();
  if (result.isTensor()) {
    result = view_like(base, result.toTensor());
    return;
  }
  c10::List<at::Tensor> views;
  for (const IValue& view : result.toListRef()) views.push_back(view_like(base, view.toTensor()));
  result = std::move(views);
}

// --- signatures

// What the program of the op by itself tells. Throws Error where it can't be lowered.
void read_program(Signature& signature) {
  const lower::Program program = compile::lower_alone(signature.graph);
  signature.checks_values = !program.problems.empty();
  signature.reads_operands = std::ranges::any_of(program.arguments, [](const auto& a) {
    return a.kind == lower::ProgramArgument::Kind::kInput;
  });
}

std::unique_ptr<OpSignature> trace(const OpFacts& facts, const RecordedCall& call) {
  auto signature = std::make_unique<OpSignature>();
  signature->computed.op = facts.name;
  try {
    Traced traced = host().trace(facts.traced_name, !facts.is_functional, call.trace_arguments());
    for (const at::Tensor& constant : traced.constants) {
      signature->computed.constants.push_back(to_device(constant));
    }
    signature->computed.numbers.assign(traced.graph.scalars.size(), -1);
    if (traced.direct) {
      if (traced.graph.scalars.size() != call.numbers().size()) {
        fail(Code::kInternal, facts.name, ": its graph takes ", traced.graph.scalars.size(),
             " numbers, its calls have ", call.numbers().size());
      }
      for (size_t k = 0; k < traced.graph.scalars.size(); ++k) {
        signature->computed.numbers[k] = static_cast<int32_t>(k);
      }
    }
    signature->computed.graph = std::move(traced.graph);
    read_outputs(*signature);
    if (signature->on_host.empty()) read_program(signature->computed);
  } catch (const std::exception& error) {
    signature->on_host = error.what();
  }
  return signature;
}

const OpSignature& signature_of(const OpFacts& facts, const RecordedCall& call) {
  {
    const std::lock_guard lock(mutex());
    if (const OpSignature* found = find_signature(call.key())) return *found;
  }
  auto made = trace(facts, call);
  const std::lock_guard lock(mutex());
  return add_signature(call.key(), std::move(made));
}

// --- recording

void check_cast(const Geometry& from, const at::Tensor& to) {
  const at::ScalarType result = aten::to_torch(from.dtype);
  TORCH_CHECK(c10::canCast(result, to.scalar_type()), "result type ", c10::toString(result),
              " can't be cast to the desired output type ", c10::toString(to.scalar_type()));
}

// Makes the written argument ready for a result of that type, as eager does.
void prepare(const OpFacts& facts, const at::Tensor& tensor, const Geometry& result) {
  check_cast(result, tensor);
  const at::IntArrayRef sizes(result.dims);
  if (!facts.has_out) {
    TORCH_CHECK(tensor.sizes() == sizes, "output with shape ", tensor.sizes(),
                " doesn't match the broadcast shape ", sizes);
  } else if (at::native::resize_output(tensor, sizes) && result.is_whole()) {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, result.strides);
  }
  // What gives all elements one value may write to some of them twice, as in eager.
  static const std::set<std::string> kFilling = {"aten::fill_.Scalar", "aten::fill_.Tensor",
                                                 "aten::zero_"};
  if (!kFilling.contains(facts.name)) at::assert_no_internal_overlap(tensor);
}

// mutex() is held.
void assign(const at::Tensor& tensor, Value value, const Geometry& type) {
  const DType dtype = aten::from_torch(tensor.scalar_type());
  if (type.dtype != dtype) {
    Geometry to = type;
    to.dtype = dtype;
    value = {record(copy_signature(type, to), {std::move(value)}, {}, {}), 0};
  }
  write(tensor, std::move(value));
}

Geometry with_memory(const Geometry& type) {
  if (type.is_whole() || type.num_elements() == 0) return type;
  const Dims strides = contiguous_strides(type.type().dims);
  return {type.dtype, type.dims, at::DimVector(strides.begin(), strides.end()), 0};
}

class Recording {
 public:
  Recording(const OpFacts& facts, const OpSignature& signature, const RecordedCall& call,
            std::span<const IValue> arguments)
      : facts_(facts), signature_(signature), call_(call), arguments_(arguments) {}

  // The fresh results, in order; an undefined tensor where there is none.
  std::vector<at::Tensor> run() {
    prepare_written();
    for (const at::Tensor& t : call_.operands()) {
      uploaded_.push_back(is_on_device(t) ? nullptr : to_device(t));
    }
    std::vector<int64_t> draws =
        take_draws(call_.generator(), signature_.computed.graph.draws.size());
    std::vector<at::Tensor> results;
    {
      const std::lock_guard lock(mutex());
      results = record_node(std::move(draws));
    }
    bound_group(node_);
    return results;
  }

 private:
  bool is_written(size_t k) const { return k < facts_.written.size() && facts_.written[k] >= 0; }
  const at::Tensor& written(size_t k) const { return arguments_[facts_.written[k]].toTensor(); }

  const Geometry& type_of(const Return& r) const {
    return r.kind == Return::Kind::kOperand ? types_.at(r.index) : r.type;
  }

  void prepare_written() {
    for (const at::Tensor& t : call_.operands()) {
      types_.push_back(Geometry::of(*t.unsafeGetTensorImpl()));
    }
    for (size_t k = 0; k < signature_.returns.size(); ++k) {
      if (!is_written(k)) continue;
      prepare(facts_, written(k), type_of(signature_.returns[k]));
      for (const at::Tensor& t : call_.operands()) {
        if (is_on_device(t)) at::assert_no_partial_overlap(written(k), t);
      }
    }
    for (const Write& w : signature_.writes) {
      at::assert_no_internal_overlap(call_.operands()[w.operand]);
    }
  }

  Value value_of(const Return& r) {
    if (r.kind == Return::Kind::kResult) return {node_, r.index};
    const Value& operand = operands_.at(r.index);
    if (r.kind == Return::Kind::kOperand) return operand;
    return view(operand, types_.at(r.index), r.type);
  }

  std::vector<at::Tensor> record_node(std::vector<int64_t> draws) {
    for (size_t i = 0; i < call_.operands().size(); ++i) {
      operands_.push_back(uploaded_[i] ? data(uploaded_[i]) : read(call_.operands()[i]));
    }
    node_ = record(signature_.computed, operands_, call_.numbers(), std::move(draws));
    std::vector<at::Tensor> fresh;
    for (size_t k = 0; k < signature_.returns.size(); ++k) {
      const Return& r = signature_.returns[k];
      if (r.kind == Return::Kind::kNone) {
        fresh.emplace_back();
      } else if (is_written(k)) {
        assign(written(k), value_of(r), type_of(r));
      } else {
        fresh.push_back(make_tensor(value_of(r), with_memory(type_of(r))));
      }
    }
    for (const Write& w : signature_.writes) {
      write(call_.operands()[w.operand], {node_, w.result});
    }
    return fresh;
  }

  const OpFacts& facts_;
  const OpSignature& signature_;
  const RecordedCall& call_;
  std::span<const IValue> arguments_;
  std::vector<Geometry> types_;  // of the operands
  std::vector<std::shared_ptr<Array>> uploaded_;
  std::vector<Value> operands_;
  std::shared_ptr<Node> node_;
};

// The op's returns: its own arguments, or fresh tensors in turn.
std::vector<IValue> returns_of(const c10::OperatorHandle& op, const OpFacts& facts,
                               std::span<const IValue> arguments, std::vector<at::Tensor> fresh) {
  std::vector<IValue> returns;
  size_t next = 0;
  for (size_t k = 0; k < facts.aliased.size(); ++k) {
    if (facts.aliased[k] >= 0) {
      returns.push_back(arguments[facts.aliased[k]]);
    } else if (op.schema().returns()[k].type()->kind() == c10::TypeKind::ListType) {
      c10::List<at::Tensor> list;
      while (next < fresh.size()) list.push_back(std::move(fresh[next++]));
      returns.emplace_back(std::move(list));
    } else {
      returns.emplace_back(std::move(fresh.at(next++)));
    }
  }
  return returns;
}

bool returns_list_among_others(const c10::OperatorHandle& op) {
  const auto& returns = op.schema().returns();
  bool any = false;
  for (const c10::Argument& r : returns) any |= r.type()->kind() == c10::TypeKind::ListType;
  return any && returns.size() > 1;
}

}  // namespace

void record_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const OpFacts& facts = facts_of(op);
  if (facts.is_view) return make_views(op, stack);
  if (op.schema().returns().empty()) return look(op, stack);
  if (!facts.returns_tensors || returns_list_among_others(op)) {
    return run_on_host(op, facts, "it returns more than tensors", stack);
  }
  const size_t count = op.schema().arguments().size();
  const std::span<const IValue> arguments(stack->data() + (stack->size() - count), count);
  const RecordedCall call(facts, arguments);
  const OpSignature& signature = signature_of(facts, call);
  if (!signature.on_host.empty()) return run_on_host(op, facts, signature.on_host, stack);
  std::vector<IValue> returns =
      returns_of(op, facts, arguments, Recording(facts, signature, call, arguments).run());
  stack->resize(stack->size() - count);
  for (IValue& r : returns) stack->push_back(std::move(r));
}

std::map<std::string, int64_t> host_ops() {
  const std::lock_guard lock(host_mutex);
  return host_counts();
}

void reset_host_ops() {
  const std::lock_guard lock(host_mutex);
  host_counts().clear();
}

}  // namespace torch_pjrt::lazy
