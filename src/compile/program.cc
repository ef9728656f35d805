#include "compile/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "compile/program_key.h"
#include "compile/stored.h"
#include "lower/preference.h"

namespace torch_pjrt::compile {
namespace {

using namespace std::chrono_literals;

lower::Order order_of(const Graph& graph, size_t input, const Dims& dims, const Dims& strides) {
  if (const auto order = lower::dense_order(dims, strides)) return *order;
  fail(Code::kInternal, "input ", input, " (", graph.inputs[input].name, ") isn't dense: dims ",
       to_string(dims), ", strides ", to_string(strides));
}

std::string shape_key(const std::vector<bool>& structural, const lower::Signature& signature,
                      lower::Precision precision) {
  cache::Key key;
  key.add("symbols", structural_values(structural, signature.symbols));
  for (const lower::Order& order : signature.input_orders) key.add("order", order);
  key.add("precision", static_cast<int64_t>(precision));
  return key.bytes();
}

// Whether they are of one program.
bool is_same(const std::vector<bool>& structural, const lower::Signature& a,
             const lower::Signature& b) {
  return a.input_orders == b.input_orders &&
         structural_values(structural, a.symbols) == structural_values(structural, b.symbols);
}

// For inputs whose memory lies as it did at capture.
lower::Program lower_for(const Graph& graph, std::vector<int64_t> symbols) {
  if (symbols.size() != graph.exprs.symbols().size()) {
    fail(Code::kInvalid, "the graph has ", graph.exprs.symbols().size(), " symbols, got ",
         symbols.size(), " values");
  }
  lower::Signature signature{std::move(symbols), {}};
  for (const Input& input : graph.inputs) {
    if (input.kind != Input::Kind::kTensor) {
      signature.input_orders.emplace_back();
      continue;
    }
    const Dims dims = evaluate(graph.exprs, input.type.dims, signature.symbols);
    const Dims strides = evaluate(graph.exprs, input.type.strides, signature.symbols);
    const auto order = lower::dense_order(dims, strides);
    signature.input_orders.push_back(
        order.value_or(lower::row_major(static_cast<int64_t>(dims.size()))));
  }
  return lower::lower(graph, signature, {});
}

}  // namespace

int64_t encode(const Number& number, DType dtype) {
  int64_t bits = 0;
  if (dtype == DType::kBool) {
    bits = number.is_float ? number.f != 0 : number.i != 0;
  } else if (dtype == DType::kI64) {
    bits = number.is_float ? static_cast<int64_t>(number.f) : number.i;
  } else if (dtype == DType::kF64) {
    const double value = number.as_float();
    std::memcpy(&bits, &value, sizeof value);
  } else {
    fail(Code::kInternal, "a program takes numbers as bool, i64 or f64, not ", name(dtype));
  }
  return bits;
}

Program::Program(Graph graph, Runtime& runtime, Options options)
    : graph_(std::make_shared<const Graph>(std::move(graph))),
      runtime_(runtime),
      options_(std::move(options)),
      binding_(*graph_),
      structural_(structural_symbols(*graph_)),
      graph_bytes_(canonical_bytes(*graph_)),
      reported_(graph_->inputs.size()) {
  runtime_.add(entries_);
}

Program::~Program() { runtime_.remove(entries_); }

std::shared_ptr<Entry> Program::match(std::span<const Argument> arguments,
                                      lower::Precision precision) const {
  if (arguments.size() != graph_->inputs.size()) return nullptr;
  Runtime::check_process();
  std::shared_ptr<Entry> entry = entries_.find(
      binding_.hash(arguments), [&](const Entry& e) { return matches(e, arguments, precision); });
  if (entry) runtime_.programs().touch(*entry->compiled);
  return entry;
}

lower::Signature Program::signature(std::span<const Argument> arguments) const {
  lower::Signature signature{binding_.bind(*graph_, arguments), {}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const run::HostTensor& t = arguments[i].tensor;
    signature.input_orders.push_back(!arguments[i].is_tensor
                                         ? lower::Order()
                                         : order_of(*graph_, i, Dims(t.dims.begin(), t.dims.end()),
                                                    Dims(t.strides.begin(), t.strides.end())));
  }
  return signature;
}

Program::Found Program::find(std::span<const Argument> arguments, lower::Precision precision,
                             run::HostLock& lock) {
  const lower::Signature signature = this->signature(arguments);
  Runtime::check_process();
  const uint64_t hash = binding_.hash(arguments);
  // Strides that say nothing may be others than those of a match.
  Found found{entries_.find(hash,
                            [&](const Entry& e) {
                              return e.precision == precision &&
                                     is_same(structural_, e.signature, signature);
                            }),
              run::Origin::kMemory};
  if (found.entry) {
    runtime_.programs().touch(*found.entry->compiled);
    return found;
  }
  const run::Reacquire reacquire(lock);
  lock.release();
  Device& device = runtime_.device(options_.plugin_path);
  const lower::Signature lowered = relaid(signature, device);
  const auto compiled = get(lowered, precision, device, lock);
  // Whoever started the compile may have been interrupted.
  if (!compiled->used.exchange(true)) found.origin = compiled->origin;
  found.entry =
      entries_.add(hash, make_entry(signature, lowered, precision, device, compiled, arguments));
  return found;
}

std::shared_ptr<Compiled> Program::compiled(const lower::Signature& signature,
                                            lower::Precision precision, run::HostLock& lock) {
  const std::string key = shape_key(structural_, signature, precision);
  {
    const std::lock_guard guard(mutex_);
    const auto found = compiled_.find(key);
    if (found != compiled_.end() && !found->second->is_evicted) {
      runtime_.programs().touch(*found->second);
      return found->second;
    }
  }
  auto made = get(signature, precision, runtime_.device(options_.plugin_path), lock);
  const std::lock_guard guard(mutex_);
  compiled_[key] = made;
  return made;
}

void Program::queue(std::span<const Argument> arguments, lower::Precision precision, Warmup& warmup,
                    run::HostLock& lock) {
  const lower::Signature signature = this->signature(arguments);
  const run::Reacquire reacquire(lock);
  lock.release();
  queue(relaid(signature, runtime_.device(options_.plugin_path)), precision, warmup);
}

void Program::queue(const lower::Signature& signature, lower::Precision precision, Warmup& warmup) {
  Runtime::check_process();
  Work todo = work(signature, precision, runtime_.device(options_.plugin_path));
  const auto make = [make = std::move(todo.make), &stats = runtime_.stats()] {
    auto compiled = make();
    // Counted now: the calls to come find it.
    compiled->used = true;
    stats.add(compiled->origin == run::Origin::kDisk ? &run::Stats::disk_hits
                                                     : &run::Stats::compiles);
    stats.add(&run::Stats::warmups);
    return compiled;
  };
  const auto found = runtime_.programs().find_or_make(
      todo.key, warmup.supervised(make), [&](Warmup::Task task) { warmup.run(std::move(task)); });
  // One that another thread makes is waited for too.
  if (!found.started) warmup.run([value = found.value] { value.wait(); });
}

cache::Key Program::key(const lower::Signature& signature, const lower::Options& options,
                        const Device& device) const {
  return program_key(graph_bytes_, structural_, signature, options,
                     device.overrides(options_.overrides), device);
}

std::vector<std::string> Program::changes(const cache::Key& key,
                                          const lower::Signature& signature) const {
  std::vector<std::string> changes;
  if (!last_key_) return changes;
  for (const std::string& part : difference(*last_key_, key)) {
    if (part != kSymbolValues) {
      changes.push_back(part);
      continue;
    }
    for (size_t s = 0; s < signature.symbols.size(); ++s) {
      const int64_t before = last_signature_.symbols[s];
      if (!structural_[s] || before == signature.symbols[s]) continue;
      changes.push_back(
          str(binding_.describe(*graph_, s), ": ", before, " -> ", signature.symbols[s]));
    }
  }
  return changes;
}

CompileRecord Program::record(const cache::Key& key, const lower::Signature& signature) {
  const std::lock_guard lock(mutex_);
  CompileRecord record{options_.source, options_.guard, changes(key, signature)};
  last_key_ = key;
  last_signature_ = signature;
  return record;
}

std::string Program::shapes(const lower::Signature& signature) const {
  std::string text;
  for (const Input& input : graph_->inputs) {
    const std::vector<Size>& dims = input.type.dims;
    if (std::ranges::none_of(dims, &Size::is_symbolic)) continue;
    const Type type{input.type.dtype, evaluate(graph_->exprs, dims, signature.symbols)};
    text += str(text.empty() ? "" : ", ", input.name, " ", to_string(type));
  }
  return text.empty() ? "the only one of this graph" : text;
}

lower::Options Program::lowering(lower::Precision precision, const Device& device) const {
  lower::Options options;
  options.platform = device.client().platform_name();
  options.precision = precision;
  if (options_.on_device) {
    options.donation = lower::Donation::kInputs;
  } else if (!device.client().host_memory().donated_out) {
    options.donation = lower::Donation::kNone;
  }
  return options;
}

Program::Work Program::work(const lower::Signature& signature, lower::Precision precision,
                            Device& device) {
  const lower::Options options = lowering(precision, device);
  cache::Key key = this->key(signature, options, device);
  std::string warning;
  if (runtime_.policies().current() == Policy::kWarn) {
    warning =
        str("compiling a program\n  function: ", options_.source, "\n  shape: ", shapes(signature));
  }
  // Copies, since the compile may outlive this call and the Program.
  auto make = [graph = graph_, signature, options, overrides = options_.overrides, &device,
               &runtime = runtime_, disk = disk(), stored = options_.stored, key,
               record = record(key, signature), warning] {
    std::shared_ptr<Compiled> program = stored ? load(key, device, runtime, *stored) : nullptr;
    if (!program && disk) program = load(key, device, runtime, *disk);
    if (program) return program;
    if (!warning.empty()) runtime.log().write("warning", warning);
    program = compile_now(*graph, signature, options, overrides, device, runtime, record);
    finish(key, *program, runtime, disk);
    release_free_memory();
    return program;
  };
  return {std::move(key), std::move(make)};
}

std::shared_ptr<Compiled> Program::get(const lower::Signature& signature,
                                       lower::Precision precision, Device& device,
                                       run::HostLock& lock) {
  const bool may_compile = runtime_.policies().current() != Policy::kError;
  return may_compile ? wait_for_compile(signature, precision, device, lock)
                     : find_compiled(signature, precision, device);
}

std::shared_ptr<Compiled> Program::wait_for_compile(const lower::Signature& signature,
                                                    lower::Precision precision, Device& device,
                                                    run::HostLock& lock) {
  const Work todo = work(signature, precision, device);
  const auto start = [](std::function<void()> task) { std::thread(std::move(task)).detach(); };
  while (true) {
    const auto value = runtime_.programs().find_or_make(todo.key, todo.make, start).value;
    while (value.wait_for(50ms) != std::future_status::ready) lock.check_interrupt();
    try {
      return value.get();
    } catch (const Warmup::Cancelled&) {
      continue;  // it was a warm-up's, and is forgotten
    }
  }
}

// What needs no compile; else throws Error(kNotCompiled).
std::shared_ptr<Compiled> Program::find_compiled(const lower::Signature& signature,
                                                 lower::Precision precision, Device& device) {
  const cache::Key key = this->key(signature, lowering(precision, device), device);
  cache::Memory<Compiled>& programs = runtime_.programs();
  if (auto ready = programs.find_ready(key)) return ready;
  const auto& stored = options_.stored;
  std::shared_ptr<Compiled> loaded = stored ? load(key, device, runtime_, *stored) : nullptr;
  if (!loaded && disk()) loaded = load(key, device, runtime_, *disk());
  if (loaded) {
    programs.find_or_make(
        key, [&] { return loaded; }, [](const std::function<void()>& task) { task(); });
    if (auto ready = programs.find_ready(key)) return ready;
    // Another thread is at it: this one serves one call.
    loaded->is_evicted = true;
    return loaded;
  }
  std::string news;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& change : changes(key, signature)) {
      news += (news.empty() ? "\n  new: " : ", ") + change;
    }
  }
  fail(
      Code::kNotCompiled,
      "this call needs a program that isn't compiled yet, and compiling is not allowed here "
      "(no_compile(), or the policy \"error\")\n  function: ",
      options_.source, "\n  shape: ", shapes(signature), news,
      "\n  remedy: call torch_pjrt.warmup() with arguments of this shape before, or allow compiles "
      "here");
}

lower::Signature Program::relaid(lower::Signature signature, const Device& device) const {
  lower::Options options;
  options.platform = device.client().platform_name();
  const auto preferred = lower::preferred_orders(*graph_, options);
  for (size_t i = 0; i < preferred.size(); ++i) {
    const Input& input = graph_->inputs[i];
    if (!input.is_weight || !preferred[i]) continue;
    const Type type{input.type.dtype, evaluate(graph_->exprs, input.type.dims, signature.symbols)};
    const bool pays = options_.freeze || type.num_bytes() <= preferred[i]->most_bytes;
    if (pays && type.num_bytes() >= preferred[i]->least_bytes)
      signature.input_orders[i] = preferred[i]->order;
  }
  return signature;
}

std::shared_ptr<run::Relaid> Program::relaid(const lower::ProgramArgument& a,
                                             const lower::Order& from, const lower::Order& to,
                                             const Device& device) {
  const lower::Order place = lower::inverse(from);
  lower::Order order;
  for (const int64_t d : to) order.push_back(place[d]);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<run::Relaid>& relaid = relaid_[{a.index, order}];
  if (!relaid) {
    const Type type{a.type.dtype, lower::permute(a.type.dims, lower::inverse(order))};
    relaid = std::make_shared<run::Relaid>(device.client(), type, order, options_.freeze,
                                           runtime_.stats());
  }
  return relaid;
}

run::Argument Program::argument(const lower::ProgramArgument& a, const lower::Signature& signature,
                                const lower::Signature& lowered, const Device& device,
                                Entry& entry) {
  using From = lower::ProgramArgument::Kind;
  using To = run::Argument::Kind;
  run::Argument argument{To::kInput, a.index, a.type, a.result};
  switch (a.kind) {
    case From::kInput: {
      const lower::Order& from = signature.input_orders[a.index];
      const lower::Order& to = lowered.input_orders[a.index];
      if (from == to) break;
      argument.kind = To::kRelaid;
      argument.relaid = relaid(a, from, to, device);
      break;
    }
    case From::kMutatedInput:
      argument.kind = To::kMutated;
      break;
    case From::kOutputMemory:
      argument.kind = To::kOutputMemory;
      break;
    case From::kDraw:
      argument.kind = To::kDraw;
      break;
    case From::kScalar: {
      const Scalar& scalar = graph_->scalars[a.index];
      if (scalar.expr < 0) {
        argument.kind = To::kConstant;
        argument.bits = encode(scalar.number, a.type.dtype);
      } else {
        argument.kind = To::kScalar;
        argument.index = static_cast<int32_t>(entry.scalars.size());
        entry.scalars.push_back(scalar);
      }
      break;
    }
  }
  return argument;
}

std::shared_ptr<Entry> Program::make_entry(const lower::Signature& signature,
                                           const lower::Signature& lowered,
                                           lower::Precision precision, const Device& device,
                                           std::shared_ptr<Compiled> compiled,
                                           std::span<const Argument> arguments) {
  auto entry = std::make_shared<Entry>();
  entry->precision = precision;
  entry->signature = signature;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const int32_t input = static_cast<int32_t>(i);
    if (arguments[i].is_tensor) {
      const Dims dims(arguments[i].tensor.dims.begin(), arguments[i].tensor.dims.end());
      const Dims strides = dense_strides(dims, signature.input_orders[i]);
      entry->tensors.push_back(
          {input, arguments[i].tensor.dtype, static_cast<int32_t>(dims.size())});
      entry->shapes.insert(entry->shapes.end(), dims.begin(), dims.end());
      entry->shapes.insert(entry->shapes.end(), strides.begin(), strides.end());
    } else if (binding_.is_free(i)) {
      entry->free.push_back(input);
    } else {
      entry->numbers.push_back({input, arguments[i].number});
    }
  }
  std::vector<run::Argument> program_arguments;
  for (const lower::ProgramArgument& a : compiled->program.arguments) {
    program_arguments.push_back(argument(a, signature, lowered, device, *entry));
  }
  std::vector<Type> types;
  for (const lower::ProgramResult& r : compiled->program.results) {
    entry->results.push_back(result_form(*graph_, r, signature.symbols));
    types.push_back(r.type);
  }
  entry->problems = compiled->program.problems;
  entry->callable = std::make_unique<run::Callable>(device.client(), compiled->executable,
                                                    std::move(program_arguments), types,
                                                    runtime_.stats(), runtime_.workers());
  entry->compiled = std::move(compiled);
  return entry;
}

StoredPrograms::Value Program::store(std::span<const Argument> arguments,
                                     lower::Precision precision, run::HostLock& lock) {
  const lower::Signature given = signature(arguments);
  Runtime::check_process();
  const run::Reacquire reacquire(lock);
  lock.release();
  Device& device = runtime_.device(options_.plugin_path);
  const lower::Signature signature = relaid(given, device);
  auto compiled = wait_for_compile(signature, precision, device, lock);
  const lower::Options options = lowering(precision, device);
  const cache::Key key = this->key(signature, options, device);
  if (compiled->origin == run::Origin::kDisk) {
    // Not serialised again: what XLA's plugin for CPUs writes of a program that it read lacks code.
    if (auto bytes = stored_bytes(key)) return {key.bytes(), std::move(*bytes)};
    compiled = compile_now(*graph_, signature, options, options_.overrides, device, runtime_,
                           record(key, signature));
  }
  return {key.bytes(), to_bytes({compiled->program, compiled->executable->serialize()})};
}

std::optional<std::string> Program::stored_bytes(const cache::Key& key) const {
  if (options_.stored) {
    const auto found = options_.stored->by_key.find(key.bytes());
    if (found != options_.stored->by_key.end()) return found->second;
  }
  return runtime_.disk() ? runtime_.disk()->read(key) : std::nullopt;
}

std::vector<int64_t> Program::symbols(const Entry& entry,
                                      std::span<const Argument> arguments) const {
  std::vector<int64_t> symbols = entry.signature.symbols;
  if (!symbols.empty()) binding_.bind_numbers(*graph_, arguments, symbols);
  return symbols;
}

std::vector<run::Copied> Program::run(const Found& found, std::span<const Argument> arguments,
                                      std::span<const int64_t> symbols,
                                      std::span<void* const> outputs, run::HostLock& lock,
                                      std::span<const int64_t> draws) {
  if (draws.size() != 2 * graph_->draws.size()) {
    fail(Code::kInternal, draws.size(), " random numbers for ", graph_->draws.size(), " draws");
  }
  std::vector<const void*> inputs(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) inputs[i] = arguments[i].tensor.data;
  std::vector<int64_t> scalars;
  for (const Scalar& s : found.entry->scalars) {
    scalars.push_back(encode(graph_->exprs.evaluate(s.expr, symbols), dtype_of(s.kind)));
  }
  return found.entry->callable->run({inputs, scalars, outputs, draws}, found.origin, lock);
}

void Program::report(std::span<const run::Copied> copied) {
  std::vector<CopiedInput> inputs;
  {
    const std::lock_guard lock(mutex_);
    for (const run::Copied& c : copied) {
      if (reported_[c.input]) continue;
      reported_[c.input] = true;
      inputs.push_back({graph_->inputs[c.input].name, c.reason});
    }
  }
  if (!inputs.empty()) runtime_.copies().write(inputs);
}

lower::Program lower_alone(const Graph& graph) {
  return lower_for(graph, Binding(graph).hints(graph));
}

std::string lower_text(const Graph& graph, const std::optional<std::vector<int64_t>>& symbols) {
  return lower_for(graph, symbols ? *symbols : Binding(graph).hints(graph)).text;
}

std::optional<lower::Refusal> refusal(const Graph& graph) {
  try {
    lower_alone(graph);
  } catch (const lower::Refusal& found) {
    return found;
  }
  return std::nullopt;
}

}  // namespace torch_pjrt::compile
