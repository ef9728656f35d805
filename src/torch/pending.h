// What ops recorded on the lazy device give: pending values, which become arrays when they are run.
//
// Values that depend on each other's pending values form a group, and a run computes all of a
// group that a storage still holds: nothing is computed twice, and what has nothing to do with the
// value that is needed stays pending.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "torch/array.h"
#include "torch/geometry.h"

namespace torch_pjrt::lazy {

// An op with the types of its arguments and their structure: all but its operands and numbers.
struct Signature {
  struct Result {
    ValueId value;  // of the graph
    Geometry type;
    bool is_kept = false;  // the old value where a check of the op fails
  };

  int32_t id = 0;
  std::string op;  // for messages
  Graph graph;     // its tensor inputs are the op's operands, then the constants
  std::vector<std::shared_ptr<Array>> constants;
  std::vector<int32_t> numbers;  // for each of graph.scalars: which number of a call; -1: its own
  std::vector<Result> results;
  bool reads_operands = true;  // else only their types
  bool checks_values = false;  // it raises for some
};

struct Node;

// A result of a node.
struct Value {
  std::shared_ptr<Node> node;
  int32_t index = 0;

  explicit operator bool() const { return node != nullptr; }
};

// Values that are run together.
struct Group {
  std::shared_ptr<Group> parent;  // the group that this one has become part of
  int64_t size = 0;               // nodes, those that nobody needs any more too
};

// Everything in it is guarded by the device's mutex, but an Array's own state.
struct Node {
  const Signature* signature = nullptr;  // null where it is data from the start
  std::vector<Value> operands;           // empty once it is run
  std::vector<Scalar> numbers;           // of this call
  std::vector<int64_t> draws;            // two for each of the graph's draws
  // Of each result; null while pending, or if dead.
  c10::SmallVector<std::shared_ptr<Array>, 1> arrays;
  c10::SmallVector<int32_t, 1> holders;     // storages that hold each result
  uint64_t sequence = 0;                    // in the order of recording
  int32_t thread = 0;                       // that recorded it
  int32_t depth = 1;                        // nodes on the longest way here from data
  std::shared_ptr<Group> group;             // while pending
  std::shared_ptr<const std::string> line;  // of the user's; null unless lines are asked for

  bool is_pending() const { return group != nullptr; }
};

// A number of the calling thread's own.
int32_t this_thread();

// The group that it is part of by now.
std::shared_ptr<Group> group_of(Node& node);

// An array as a value.
Value data(std::shared_ptr<Array> array);

// A call of the op. `operands` are those of the signature but its constants.
std::shared_ptr<Node> record(const Signature& signature, std::vector<Value> operands,
                             std::vector<Scalar> numbers, std::vector<int64_t> draws);

}  // namespace torch_pjrt::lazy
