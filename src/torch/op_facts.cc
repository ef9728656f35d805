#include "torch/op_facts.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "lower/lower.h"

namespace torch_pjrt::lazy {
namespace {

using Schema = c10::FunctionSchema;

std::string full_name(const Schema& schema) {
  return schema.overload_name().empty() ? schema.name()
                                        : schema.name() + "." + schema.overload_name();
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

bool is_tensor_like(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::ListType:
      return is_tensor_like(*type.castRaw<c10::ListType>()->getElementType());
    case c10::TypeKind::OptionalType:
      return is_tensor_like(*type.castRaw<c10::OptionalType>()->getElementType());
    default:
      return false;
  }
}

bool is_option(const std::string& name) {
  return name == "dtype" || name == "layout" || name == "device" || name == "pin_memory";
}

const std::vector<c10::OperatorName>& overloads(const std::string& name) {
  static const auto& by_name = []() -> auto& {
    auto& table = *new std::unordered_map<std::string, std::vector<c10::OperatorName>>;
    for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
      table[op.name].push_back(op);
    }
    return table;
  }();
  static const std::vector<c10::OperatorName> none;
  const auto it = by_name.find(name);
  return it == by_name.end() ? none : it->second;
}

// Fits a schema without side effects to one with: its arguments, but out=, and each of its results
// the new value of a written argument.
bool fit(OpFacts& facts, const Schema& op, const Schema& candidate) {
  std::vector<OpFacts::Source> sources;
  std::vector<int32_t> written;
  const auto& arguments = op.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (facts.writes[i]) written.push_back(static_cast<int32_t>(i));
  }
  if (candidate.returns().size() != written.size() || candidate.is_mutable()) return false;
  size_t used = 0;
  for (const c10::Argument& wanted : candidate.arguments()) {
    OpFacts::Source source;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name() != wanted.name()) continue;
      if (facts.writes[i] && facts.has_out) continue;
      if (*arguments[i].type() != *wanted.type()) return false;
      source.argument = static_cast<int32_t>(i);
      ++used;
    }
    if (source.argument < 0) {
      if (!facts.has_out || !is_option(wanted.name())) return false;
      source.dtype_of_out = wanted.name() == "dtype";
    }
    sources.push_back(source);
  }
  const size_t inputs = arguments.size() - (facts.has_out ? written.size() : 0);
  if (used != inputs) return false;
  facts.sources = std::move(sources);
  facts.written = std::move(written);
  return true;
}

void find_functional(OpFacts& facts, const Schema& op) {
  std::string base = op.name();
  if (!facts.has_out && base.ends_with('_')) base.pop_back();
  for (const c10::OperatorName& name : overloads(base)) {
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle || &handle->schema() == &op) continue;
    if (!facts.has_out && name.overload_name != op.overload_name()) continue;
    if (!fit(facts, op, handle->schema())) continue;
    facts.traced = &handle->schema();
    facts.is_functional = true;
    return;
  }
}

// Whether the type, or that of which it is an optional, stands for a number or may be one.
bool is_number_type(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::OptionalType:
      return is_number_type(*type.castRaw<c10::OptionalType>()->getElementType());
    default:
      return false;
  }
}

OpFacts::Role role_of(const std::string& op, const c10::Argument& argument, bool is_number) {
  const Number two = Number::of_int(2);
  const bool of_two = lower::is_value(op, argument.name(), is_number, &two);
  const bool of_any = lower::is_value(op, argument.name(), is_number, nullptr);
  if (of_two != of_any) return OpFacts::Role::kByNumber;
  return of_any ? OpFacts::Role::kValue : OpFacts::Role::kStructure;
}

std::unique_ptr<OpFacts> make_facts(const c10::OperatorHandle& handle) {
  const Schema& op = handle.schema();
  auto facts = std::make_unique<OpFacts>();
  facts->name = full_name(op);
  bool is_mutable = false;
  for (const c10::Argument& a : op.arguments()) {
    facts->writes.push_back(is_written(a));
    is_mutable |= is_written(a);
    facts->has_out |= is_written(a) && a.is_out();
  }
  for (const c10::Argument& r : op.returns()) {
    facts->returns_tensors &= is_tensor_like(*r.type());
    int32_t argument = -1;
    for (size_t i = 0; r.alias_info() && i < op.arguments().size(); ++i) {
      const auto* alias = op.arguments()[i].alias_info();
      if (alias && alias->beforeSets() == r.alias_info()->beforeSets()) {
        argument = static_cast<int32_t>(i);
      }
    }
    facts->aliased.push_back(argument);
    facts->is_view |= r.alias_info() && !r.alias_info()->isWrite();
    facts->returns_list |= r.type()->kind() == c10::TypeKind::ListType;
  }
  facts->returns_more = facts->returns_list && op.returns().size() > 1;
  facts->fills = op.name() == "aten::fill_" || op.name() == "aten::zero_";
  facts->is_data_dependent =
      handle.hasTag(at::Tag::dynamic_output_shape) || handle.hasTag(at::Tag::data_dependent_output);
  if (is_mutable) find_functional(*facts, op);
  if (!facts->traced) {
    facts->traced = &op;
    facts->is_functional = !is_mutable;
    for (size_t i = 0; i < op.arguments().size(); ++i) {
      facts->sources.push_back({static_cast<int32_t>(i)});
    }
    facts->written.assign(op.returns().size(), -1);
  }
  facts->traced_name = full_name(*facts->traced);
  facts->has_rule = facts->is_functional && lower::has_rule(facts->traced_name);
  facts->counts = facts->traced->name() == "aten::arange";
  for (size_t i = 0; facts->has_rule && i < facts->sources.size(); ++i) {
    const c10::Argument& argument = facts->traced->arguments()[i];
    facts->sources[i].is_number = is_number_type(*argument.type());
    facts->sources[i].role = role_of(facts->traced_name, argument, facts->sources[i].is_number);
  }
  return facts;
}

}  // namespace

const OpFacts& facts_of(const c10::OperatorHandle& op) {
  static auto& table = *new std::unordered_map<const Schema*, std::unique_ptr<OpFacts>>;
  static auto& table_mutex = *new std::mutex;
  thread_local std::unordered_map<const Schema*, const OpFacts*> known;
  const OpFacts*& found = known[&op.schema()];
  if (found) return *found;
  const std::lock_guard lock(table_mutex);
  std::unique_ptr<OpFacts>& entry = table[&op.schema()];
  if (!entry) entry = make_facts(op);
  found = entry.get();
  return *found;
}

}  // namespace torch_pjrt::lazy
