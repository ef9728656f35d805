// The state of one lowering: which HLO value stands for which graph value, and the program's
// arguments so far.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "lower/rule.h"

namespace torch_pjrt::lower {

class Lowering {
 public:
  Lowering(const Graph& graph, const Signature& signature, const Options& options);

  Program run();

  hlo::Builder& build() { return builder_; }
  const Graph& graph() const { return graph_; }
  const Options& options() const { return options_; }

  int64_t evaluate(const Size& size) const {
    return graph_.exprs.evaluate(size, signature_.symbols);
  }
  Type concrete(const SymType& type) const;
  // A graph value; an input or a draw becomes an argument of the program at its first use.
  const Tensor& value(ValueId id);
  // A value scalar as a 0-d argument of its kind's type.
  hlo::Value scalar(Slot slot);
  DType dtype(ValueId id) const { return dtypes_[id]; }
  int64_t rank(ValueId id) const { return ranks_[id]; }

 private:
  Tensor argument(ValueId id);
  void lower_node(const Node& node);
  void lower_outputs();
  void add_output(int32_t index, const Output& output);
  void add_mutation(int32_t index, const Mutation& mutation);
  void add_output_memory();
  // A value that the program gives back, in that memory order.
  void add_result(ProgramResult::Kind kind, int32_t index, const Tensor& tensor,
                  const Order& order);

  const Graph& graph_;
  const Signature& signature_;
  const Options& options_;
  hlo::Builder builder_;
  Program program_;
  std::vector<std::optional<Tensor>> values_;
  std::vector<int32_t> input_of_value_;   // -1: no input
  std::vector<int32_t> result_of_input_;  // the result that is its new value; -1: not mutated
  std::map<ValueId, int32_t> draw_of_value_;
  std::vector<DType> dtypes_;
  std::vector<int64_t> ranks_;
  std::map<int32_t, hlo::Value> scalars_;
  std::vector<hlo::Value> results_;
};

}  // namespace torch_pjrt::lower
