// Pending values as a program: which nodes it has, its key, and its graph.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "compile/program.h"
#include "torch/pending.h"

namespace torch_pjrt::lazy {

// The order in which a program gives a result of that type: that of the strides.
lower::Order order_of(const Geometry& type);

// A program for groups that are equal but for their operands and numbers.
struct PendingProgram {
  PendingProgram(Graph graph, lower::Signature signature, lower::Precision precision,
                 compile::Runtime& runtime, const std::string& plugin);

  const Graph& graph() const { return program_.graph(); }

  // Compiles it if need be. Any thread may call it, without mutex().
  std::shared_ptr<compile::Compiled> compiled(run::HostLock& lock);

 private:
  compile::Program program_;
  const lower::Signature signature_;
  const lower::Precision precision_;
  std::mutex mutex_;
  std::shared_ptr<compile::Compiled> compiled_;
};

// What is taken out of the pending values to be run. Its results are already theirs.
struct Plan {
  PendingProgram* program = nullptr;  // null: there is nothing to run
  std::vector<std::shared_ptr<Array>> inputs;
  std::vector<bool> spent;      // of each input: nobody needs it after this
  std::vector<Number> scalars;  // of the program's graph
  std::vector<int64_t> draws;
  std::vector<std::shared_ptr<Array>> outputs;
  std::shared_ptr<Check> check = std::make_shared<Check>();  // of this run
};

// Of the groups of those values that are pending. mutex() is held. From here on all that storages
// hold of these groups, and the values themselves, is data, which the caller is to compute.
Plan plan(std::span<const Value> values, const std::string& plugin);
// Of the groups in which this thread has recorded what a storage holds.
Plan plan_own(const std::string& plugin);

}  // namespace torch_pjrt::lazy
