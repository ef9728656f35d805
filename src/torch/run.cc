#include "torch/run.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <list>
#include <thread>
#include <utility>

#include "base/error.h"
#include "torch/constants.h"
#include "torch/host.h"
#include "torch/outputs.h"
#include "torch/runtime.h"
#include "torch/signature.h"
#include "torch/storage.h"
#include "torch/tensor.h"

namespace torch_pjrt::lazy {
namespace {

// Nodes of one program, and nodes in a row: compilers take long for more (XLA's time for a chain
// grows with its square, 4 s for this one), and a loop without a read would not end.
constexpr int64_t kMaxGroupSize = 4000;
constexpr int32_t kMaxDepth = 2000;

// Checks that nobody has read; from here on those that found nothing are let go.
constexpr size_t kManyUnread = 64;

// Without Python's lock for a scope.
class Unlocked {
 public:
  Unlocked() : lock_(host().lock()) { lock_->release(); }
  ~Unlocked() { lock_->acquire(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  run::HostLock& lock() { return *lock_; }

 private:
  std::unique_ptr<run::HostLock> lock_;
};

std::mutex started_mutex;
std::list<pjrt::Event>& running() {  // ends of programs
  static auto& instance = *new std::list<pjrt::Event>;
  return instance;
}
std::list<std::shared_ptr<Check>>& unread() {  // checks that no read has raised
  static auto& instance = *new std::list<std::shared_ptr<Check>>;
  return instance;
}

// Whether it is an error of the program's, which a read tells of.
bool is_failure(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error&) {
    return true;
  } catch (const c10::Error&) {
    return true;
  } catch (...) {
    return false;
  }
}

void give_all(const Plan& plan, const std::exception_ptr& error) {
  for (const auto& output : plan.outputs) {
    if (!output->is_given()) output->give(error);
  }
}

// The error with the ops of the program that it is of.
std::exception_ptr with_ops(const Plan& plan, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    const size_t count = plan.program->graph().nodes.size();
    return std::make_exception_ptr(
        Error(e.code(), str(e.what(), "\n  in a program of ", count,
                            " ops that were recorded on device pjrt, the last of them ",
                            aten::describe_node(plan.program->graph(), count - 1))));
  } catch (...) {
    return error;
  }
}

void run_plan(Plan plan);

// For a plan whose thread can't wait for its program any longer.
void run_elsewhere(Plan plan) {
  std::thread([plan = std::move(plan)]() mutable noexcept { run_plan(std::move(plan)); }).detach();
}

void run_plan(Plan plan) {
  if (!plan.program) return;
  std::shared_ptr<compile::Compiled> compiled;
  try {
    Unlocked unlocked;
    compiled = plan.program->compiled(unlocked.lock());
    auto results =
        execute(*compiled, {plan.inputs, plan.spent, plan.scalars, plan.draws}, plan.check);
    for (size_t i = 0; i < plan.outputs.size(); ++i) plan.outputs[i]->give(std::move(results[i]));
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    if (!compiled && !is_failure(error)) {
      // Ctrl-C, which is the caller's to see. The values are there all the same, once the compile
      // has ended.
      run_elsewhere(std::move(plan));
      throw;
    }
    give_all(plan, with_ops(plan, error));
    if (!is_failure(error)) throw;
  }
}

}  // namespace

compile::Device& device() {
  static compile::Device& instance = aten::runtime().device(plugin_path());
  return instance;
}

const std::string& plugin_path() {
  static const std::string& path = *new std::string(host().plugin());
  return path;
}

void check_values() {
  std::list<std::shared_ptr<Check>> checks;
  {
    const std::lock_guard lock(started_mutex);
    checks.swap(unread());
  }
  while (!checks.empty()) {
    const std::shared_ptr<Check> check = std::move(checks.front());
    checks.pop_front();
    try {
      check->raise_first();
    } catch (...) {
      const std::lock_guard lock(started_mutex);
      unread().splice(unread().begin(), checks);
      throw;
    }
  }
}

bool has_status(const compile::Compiled& compiled) {
  const auto& results = compiled.program.results;
  return !results.empty() && results.back().kind == lower::ProgramResult::Kind::kStatus;
}

std::vector<pjrt::Buffer> execute(compile::Compiled& compiled, const Arguments& given,
                                  const std::shared_ptr<Check>& check) {
  using Kind = lower::ProgramArgument::Kind;
  const pjrt::Client& client = device().client();
  std::vector<pjrt::Buffer> own;
  own.reserve(compiled.program.arguments.size());
  const auto copied = [&](const void* memory, const Type& type) {
    own.push_back(client.from_host(memory, type, pjrt::HostSemantics::kImmutableOnlyDuringCall));
    return own.back().get();
  };
  std::vector<pjrt::Buffer> results;
  std::vector<PJRT_Buffer*> arguments;
  std::vector<int64_t> kept;
  std::vector<Array*> donated;
  arguments.reserve(compiled.program.arguments.size());
  for (const lower::ProgramArgument& a : compiled.program.arguments) {
    const auto at = static_cast<size_t>(a.index);
    switch (a.kind) {
      case Kind::kInput:
        arguments.push_back(given.inputs[at]->buffer().get());
        break;
      case Kind::kMutatedInput:
        if (at < given.spent.size() && given.spent[at]) {
          donated.push_back(given.inputs[at].get());
        } else {
          kept.push_back(static_cast<int64_t>(arguments.size()));
        }
        arguments.push_back(given.inputs[at]->buffer().get());
        break;
      case Kind::kDraw:
        arguments.push_back(copied(&given.draws[2 * at], a.type));
        break;
      case Kind::kScalar: {
        const int64_t bits = compile::encode(given.scalars[at], a.type.dtype);
        arguments.push_back(copied(&bits, a.type));
        break;
      }
      case Kind::kOutputMemory:
        fail(Code::kInternal, "a program of the device takes memory of its caller's");
    }
  }
  run::Stats& stats = aten::runtime().stats();
  stats.add(&run::Stats::executions);
  stats.add(run::counter(compiled.used.exchange(true) ? run::Origin::kMemory : compiled.origin));
  {
    pjrt::Event done = compiled.executable->execute(arguments, kept, results);
    const std::lock_guard lock(started_mutex);
    std::erase_if(running(), [](const pjrt::Event& e) { return e.is_ready(); });
    running().push_back(std::move(done));
  }
  for (Array* array : donated) array->donated();
  if (has_status(compiled)) {
    check->start(compiled.program.problems, std::move(results.back()));
    results.pop_back();
    const std::lock_guard lock(started_mutex);
    if (unread().size() >= kManyUnread) {
      std::erase_if(unread(), [](const auto& c) { return c->is_fine(); });
    }
    unread().push_back(check);
  }
  return results;
}

std::vector<std::shared_ptr<Array>> arrays_of(std::span<const at::Tensor* const> tensors) {
  const std::string& plugin = plugin_path();
  std::vector<Value> values;
  Plan next;
  {
    const std::lock_guard lock(mutex());
    Constants constants;
    for (const at::Tensor* t : tensors) {
      values.push_back(read(*t));
      recall(values.back());
      constants.note(values.back());
    }
    next = plan(values, plugin);
    constants.keep();
  }
  run_plan(std::move(next));
  std::vector<std::shared_ptr<Array>> arrays;
  for (const Value& v : values) arrays.push_back(v.node->arrays[v.index]);
  return arrays;
}

std::shared_ptr<Array> array_of(const at::Tensor& tensor) {
  const at::Tensor* one = &tensor;
  return arrays_of({&one, 1}).front();
}

void run_all() {
  Plan next;
  {
    const std::lock_guard lock(mutex());
    if (!Storage::any_pending()) return;
  }
  const std::string& plugin = plugin_path();
  {
    const std::lock_guard lock(mutex());
    next = plan_own(plugin);
  }
  run_plan(std::move(next));
}

void synchronize() {
  run_all();
  const Unlocked unlocked;
  std::list<pjrt::Event> events;
  {
    const std::lock_guard lock(started_mutex);
    events.swap(running());
  }
  for (const pjrt::Event& event : events) event.await();
  check_values();
}

bool is_beyond_bounds(Node& node) {
  return node.is_pending() && (node.depth >= kMaxDepth || group_of(node)->size >= kMaxGroupSize);
}

void bound_group(const std::shared_ptr<Node>& node) {
  const std::string& plugin = plugin_path();
  Plan next;
  {
    const std::lock_guard lock(mutex());
    if (!is_beyond_bounds(*node)) return;
    const Value value{node, 0};
    next = plan({&value, 1}, plugin);
  }
  run_plan(std::move(next));
}

at::Tensor to_host(const at::Tensor& tensor) {
  const c10::AutoGradMode no_grad(false);
  const auto array = array_of(tensor);
  at::Tensor result = at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()));
  {
    const Unlocked unlocked;
    array->to_host(result.unsafeGetTensorImpl()->mutable_data(), result.nbytes());
    check_values();
  }
  aten::runtime().stats().add(&run::Stats::device_to_host_bytes,
                              static_cast<int64_t>(result.nbytes()));
  return result;
}

uintptr_t address_of(const at::Tensor& tensor) {
  if (!device().client().host_memory().zero_copy_in) {
    fail(Code::kUnsupported,
         "the memory of this plugin has no addresses\n  remedy: move the tensor to the CPU");
  }
  // A tensor of a transform is none of ours.
  auto* const own = tensor.has_storage()
                        ? dynamic_cast<Storage*>(tensor.storage().unsafeGetStorageImpl())
                        : nullptr;
  if (!own) fail(Code::kInvalid, "this tensor has no memory of its own");
  Storage& storage = *own;
  if (storage.nbytes() == 0) return 0;
  at::Tensor whole;
  {
    const std::lock_guard lock(mutex());
    read(tensor);  // so that there is a value
    const Geometry g = storage.geometry();
    const Value value = storage.value();
    // That of the storage, and this one.
    if (value.node.use_count() > 2 || value.node->holders[value.index] > 1) {
      storage.set({record(copy_signature(g, g), {value}, {}, {}), 0}, g);
    }
    whole = at::detail::make_tensor<c10::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(tensor.storage()), tensor.key_set(),
        c10::scalarTypeToTypeMeta(aten::to_torch(g.dtype)));
    whole.unsafeGetTensorImpl()->set_sizes_and_strides(g.dims, g.strides);
  }
  const auto array = array_of(whole);
  const Unlocked unlocked;
  const pjrt::Buffer& buffer = array->buffer();
  buffer.ready().await();
  return reinterpret_cast<uintptr_t>(buffer.unsafe_pointer());
}

std::shared_ptr<Array> to_device(const at::Tensor& tensor) {
  const c10::AutoGradMode no_grad(false);
  at::Tensor source = tensor.detach().resolve_conj().resolve_neg();
  const Dims dims(source.sizes().begin(), source.sizes().end());
  auto order = lower::dense_order(dims, Dims(source.strides().begin(), source.strides().end()));
  if (!order) {
    source = source.contiguous();
    order = lower::row_major(source.dim());
  }
  const Type type{aten::from_torch(source.scalar_type()), dims};
  const Type physical{type.dtype, lower::permute(dims, *order)};
  const Unlocked unlocked;
  const void* memory = type.num_elements() == 0 ? nullptr : source.const_data_ptr();
  aten::runtime().stats().add(&run::Stats::host_to_device_bytes, type.num_bytes());
  return std::make_shared<Array>(
      type, *order,
      device().client().from_host(memory, physical, pjrt::HostSemantics::kImmutableOnlyDuringCall));
}

}  // namespace torch_pjrt::lazy
