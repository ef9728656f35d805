#include "torch/pending.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace torch_pjrt::lazy {
namespace {

std::shared_ptr<Group> root(std::shared_ptr<Group> group) {
  while (group->parent) {
    if (group->parent->parent) group->parent = group->parent->parent;
    group = group->parent;
  }
  return group;
}

uint64_t next_sequence = 0;  // guarded by the device's mutex

}  // namespace

int32_t this_thread() {
  static std::atomic<int32_t> next = 0;
  thread_local const int32_t number = next++;
  return number;
}

std::shared_ptr<Group> group_of(Node& node) {
  if (node.group->parent) node.group = root(node.group);
  return node.group;
}

Value data(std::shared_ptr<Array> array) {
  auto node = std::make_shared<Node>();
  node->arrays.push_back(std::move(array));
  node->holders.push_back(0);
  return {std::move(node), 0};
}

std::shared_ptr<Node> record(const Signature& signature, std::vector<Value> operands,
                             std::vector<Scalar> numbers, std::vector<int64_t> draws) {
  auto node = std::make_shared<Node>();
  node->signature = &signature;
  node->numbers = std::move(numbers);
  node->draws = std::move(draws);
  node->arrays.resize(signature.results.size());
  node->holders.resize(signature.results.size());
  node->sequence = next_sequence++;
  node->thread = this_thread();
  for (const Value& operand : operands) {
    if (!operand.node->is_pending()) continue;
    const std::shared_ptr<Group> group = group_of(*operand.node);
    node->depth = std::max(node->depth, operand.node->depth + 1);
    if (!node->group) {
      node->group = group;
    } else if (group != node->group) {
      node->group->size += group->size;
      group->parent = node->group;
    }
  }
  if (!node->group) node->group = std::make_shared<Group>();
  ++node->group->size;
  for (const std::shared_ptr<Array>& constant : signature.constants) {
    operands.push_back(data(constant));
  }
  node->operands = std::move(operands);
  return node;
}

}  // namespace torch_pjrt::lazy
