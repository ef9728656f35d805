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

// Has an op whose check fails leave what it writes as it was.
void keep_old(OpSignature& signature, size_t result, size_t operand) {
  Graph& graph = signature.computed.graph;
  Signature::Result& written = signature.computed.results[result];
  const Geometry& old = signature.operands[operand];
  if (written.is_kept || written.type.type() != old.type()) return;
  std::vector<NamedArg> args = {{"self", {ValueRef{written.value}}},
                                {"old", {ValueRef{graph.inputs[operand].value}}},
                                {"nodes", {Size(static_cast<int64_t>(graph.nodes.size()))}}};
  written.value =
      graph.add_node("torch_pjrt::unless_bad", std::move(args), {written.type.sym_type()}, "");
  written.is_kept = true;
}

void keep_old(OpSignature& signature, const OpFacts& facts, const RecordedCall& call) {
  for (size_t k = 0; k < signature.returns.size() && k < facts.written.size(); ++k) {
    const Return& r = signature.returns[k];
    if (facts.written[k] < 0 || r.kind != Return::Kind::kResult) continue;
    if (const auto operand = call.operand_of(facts.written[k])) {
      keep_old(signature, r.index, *operand);
    }
  }
  for (const Write& w : signature.writes) keep_old(signature, w.result, w.operand);
}

std::unique_ptr<OpSignature> trace(const OpFacts& facts, const RecordedCall& call) {
  auto signature = std::make_unique<OpSignature>();
  signature->computed.op = facts.name;
  for (const at::Tensor* t : call.operands()) {
    signature->operands.push_back(Geometry::of(*t->unsafeGetTensorImpl()));
  }
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
    if (signature->computed.checks_values) keep_old(*signature, facts, call);
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

// Makes the written argument ready for a result of that type, as eager does. `may_resize`: to the
// result's sizes.
void prepare(const at::Tensor& tensor, const Geometry& result, bool may_resize) {
  check_cast(result, tensor);
  const at::IntArrayRef sizes(result.dims);
  if (!may_resize) {
    TORCH_CHECK(tensor.sizes() == sizes, "output with shape ", tensor.sizes(),
                " doesn't match the broadcast shape ", sizes);
  } else if (at::native::resize_output(tensor, sizes) && result.is_whole()) {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, result.strides);
  }
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
  Recording(const OpFacts& facts, const OpSignature& signature, RecordedCall& call,
            std::span<const IValue> arguments)
      : facts_(facts), signature_(signature), call_(call), arguments_(arguments) {}

  // The fresh results, in order; an undefined tensor where there is none.
  std::vector<at::Tensor> run() {
    prepare_written();
    upload();
    std::vector<int64_t> draws =
        take_draws(call_.generator(), signature_.computed.graph.draws.size());
    std::vector<at::Tensor> results;
    const auto line = host().line ? std::make_shared<std::string>(host().line()) : nullptr;
    bool is_too_large = false;
    {
      const std::lock_guard lock(mutex());
      results = record_node(std::move(draws));
      node_->line = line;
      is_too_large = is_beyond_bounds(*node_);
    }
    if (is_too_large) bound_group(node_);
    return results;
  }

 private:
  bool is_written(size_t k) const { return k < facts_.written.size() && facts_.written[k] >= 0; }
  const at::Tensor& written(size_t k) const { return arguments_[facts_.written[k]].toTensor(); }
  const at::Tensor& operand(size_t i) const { return *call_.operands()[i]; }

  const Geometry& type_of(const Return& r) const {
    return r.kind == Return::Kind::kOperand ? signature_.operands.at(r.index) : r.type;
  }

  void prepare_written() {
    for (size_t k = 0; k < signature_.returns.size(); ++k) {
      if (!is_written(k)) continue;
      // What gives all elements one value may write to some of them twice, as in eager.
      if (!facts_.fills) at::assert_no_internal_overlap(written(k));
      bool is_read = false;
      for (const at::Tensor* t : call_.operands()) {
        if (is_on_device(*t)) at::assert_no_partial_overlap(written(k), *t);
        is_read |= t->is_same(written(k));
      }
      prepare(written(k), type_of(signature_.returns[k]), facts_.has_out && !is_read);
    }
    for (const Write& w : signature_.writes) at::assert_no_internal_overlap(operand(w.operand));
  }

  void upload() {
    for (size_t i = 0; i < call_.operands().size(); ++i) {
      if (is_on_device(operand(i))) continue;
      uploaded_.resize(call_.operands().size());
      uploaded_[i] = to_device(operand(i));
    }
  }

  Value value_of(const Return& r) {
    if (r.kind == Return::Kind::kResult) return {node_, r.index};
    const Value& operand = operands_.at(r.index);
    if (r.kind == Return::Kind::kOperand) return operand;
    return view(operand, signature_.operands.at(r.index), r.type);
  }

  std::vector<at::Tensor> record_node(std::vector<int64_t> draws) {
    operands_.reserve(call_.operands().size());
    for (size_t i = 0; i < call_.operands().size(); ++i) {
      const bool is_uploaded = !uploaded_.empty() && uploaded_[i];
      operands_.push_back(is_uploaded ? data(uploaded_[i]) : read(operand(i)));
    }
    node_ = record(signature_.computed, operands_, call_.take_numbers(), std::move(draws));
    std::vector<at::Tensor> fresh;
    fresh.reserve(signature_.returns.size());
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
    for (const Write& w : signature_.writes) write(operand(w.operand), {node_, w.result});
    return fresh;
  }

  const OpFacts& facts_;
  const OpSignature& signature_;
  RecordedCall& call_;
  std::span<const IValue> arguments_;
  std::vector<std::shared_ptr<Array>> uploaded_;  // none if all operands are on the device
  std::vector<Value> operands_;
  std::shared_ptr<Node> node_;
};

// In place of the arguments on the stack, the op's returns: its own arguments, or fresh tensors in
// turn.
void put_returns(const OpFacts& facts, std::vector<at::Tensor> fresh, size_t count, Stack* stack) {
  const size_t first = stack->size() - count;
  if (facts.returns_list && facts.aliased.front() < 0) {
    c10::List<at::Tensor> list;
    list.reserve(fresh.size());
    for (at::Tensor& t : fresh) list.push_back(std::move(t));
    stack->resize(first);
    stack->emplace_back(std::move(list));
    return;
  }
  c10::SmallVector<IValue, 4> returns;
  size_t next = 0;
  for (const int32_t argument : facts.aliased) {
    returns.push_back(argument >= 0 ? (*stack)[first + argument]
                                    : IValue(std::move(fresh.at(next++))));
  }
  stack->resize(first);
  for (IValue& r : returns) stack->push_back(std::move(r));
}

bool is_marked(const IValue& v) {
  return v.isTensor() && (v.toTensor().is_conj() || v.toTensor().is_neg());
}

// Lazily conjugated and negated operands computed: a few ops get them as they are. Whether all are
// computed: what is written through such a mark isn't.
bool resolve(const OpFacts& facts, std::span<IValue> arguments) {
  for (size_t k = 0; k < arguments.size(); ++k) {
    if (!is_marked(arguments[k])) continue;
    if (facts.writes[k]) return false;
    arguments[k] = arguments[k].toTensor().resolve_conj().resolve_neg();
  }
  return true;
}

void record_or_run(const c10::OperatorHandle& op, Stack* stack) {
  const OpFacts& facts = facts_of(op);
  if (facts.is_view) return make_views(op, stack);
  if (op.schema().returns().empty()) return look(op, stack);
  if (!facts.returns_tensors || facts.returns_more) {
    return run_on_host(op, facts, "it returns more than tensors", stack);
  }
  const size_t count = op.schema().arguments().size();
  const std::span<IValue> arguments(stack->data() + (stack->size() - count), count);
  if (!resolve(facts, arguments)) return run_on_host(op, facts, "it writes to a conjugate", stack);
  RecordedCall call(facts, arguments);
  const OpSignature& signature = signature_of(facts, call);
  if (!signature.on_host.empty()) return run_on_host(op, facts, signature.on_host, stack);
  put_returns(facts, Recording(facts, signature, call, arguments).run(), count, stack);
}

}  // namespace

void record_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  raising([&] { record_or_run(op, stack); });
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
