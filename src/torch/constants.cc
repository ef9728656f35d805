#include "torch/constants.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include "torch/key_bytes.h"

namespace torch_pjrt::lazy {
namespace {

constexpr int64_t kMostElements = 64;
constexpr size_t kMostKept = 1024;

auto& kept() {
  static auto& table = *new std::unordered_map<std::string, std::shared_ptr<Array>>;
  return table;
}

// Nothing for a value that isn't of this kind.
std::optional<std::string> key_of(const Value& value) {
  const Node& node = *value.node;
  if (!node.is_pending() || !node.draws.empty()) return std::nullopt;
  if (!node.operands.empty() && node.signature->reads_operands) return std::nullopt;
  if (node.signature->results[value.index].type.num_elements() > kMostElements) return std::nullopt;
  std::string key;
  append(key, node.signature->id);
  append(key, value.index);
  for (const Scalar& s : node.numbers) {
    append(key, s.number.is_float);
    s.number.is_float ? append(key, s.number.f) : append(key, s.number.i);
  }
  return key;
}

}  // namespace

void recall(const Value& value) {
  // One of several results would leave the others without their node.
  if (value.node->arrays.size() != 1) return;
  const auto key = key_of(value);
  if (!key) return;
  const auto found = kept().find(*key);
  if (found == kept().end()) return;
  value.node->arrays.front() = found->second;
  value.node->group = nullptr;
}

void Constants::note(const Value& value) {
  if (auto key = key_of(value)) noted_.push_back({std::move(*key), value});
}

void Constants::keep() const {
  if (kept().size() + noted_.size() > kMostKept) kept().clear();
  for (const Noted& n : noted_) kept()[n.key] = n.value.node->arrays[n.value.index];
}

}  // namespace torch_pjrt::lazy
