// The state of one lowering: which HLO value stands for which graph value, and the program's
// arguments so far.
//
// Checks of values come first, with the nodes that they read, so that all that writes to an input's
// memory may depend on whether they pass.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
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
  // A graph value. At its first use a graph input or a draw becomes an argument of the program, and
  // a node that hasn't been lowered is, after those that it depends on.
  const Tensor& value(ValueId id);
  // A value scalar as a 0-d tensor of its kind's type: one argument, or two for a complex number.
  hlo::Value scalar(Slot slot);
  // An int scalar, if the program's sizes decide it.
  std::optional<int64_t> known_integer(Slot slot) const;
  Type type(ValueId id) const;
  DType dtype(ValueId id) const { return dtypes_[id]; }
  int64_t rank(ValueId id) const { return ranks_[id]; }
  // n if all elements are in [0, n), because they are an arange's.
  std::optional<int64_t> known_limit(ValueId id) const;
  bool is_used(ValueId id) const { return used_[id]; }  // by a node or as a result
  // Lowers the nodes of a region, in the region of the builder that is open; `arguments` are its
  // parameters.
  RegionResults lower_region(const Region& region, std::span<const Tensor> arguments);
  bool has_checks(const Region& region) const;
  // What the regions of a node have found.
  void set_status(const Node& node, Status status) { statuses_[&node] = std::move(status); }
  // Whether the checks pass, for a node that may write to a mutated input in place.
  std::optional<hlo::Value> write_permit(const Node& node);
  std::optional<hlo::Value> passed(const Node& node, int64_t count);

 private:
  Tensor argument(ValueId id);
  const hlo::Value& scalar_argument(int32_t index, DType dtype);
  bool is_of_complex(const Arg& arg) const;
  bool is_of_complex(const Node& node) const;  // an operand or result
  // Of all nodes, those in regions too: what they give.
  void enter(const std::vector<Node>& nodes, int depth);
  // The values from outside of a node that it and its regions read.
  void for_each_read(const Node& node, const std::function<void(ValueId)>& f) const;
  template <class F>
  auto refusing(const Node& node, const F& f) const;
  void lower_node(size_t index);
  void lower_with_arguments(size_t index);
  std::optional<Status> check_all(const std::vector<Node>& nodes);
  void lower_checks();
  // The mutated input whose old value a tensor is where the checks fail; -1: of none.
  int32_t kept_input(const Tensor& t) const;
  bool donates() const { return options_.donation != Donation::kNone; }
  void lower_outputs();
  void add_output(int32_t index, const Output& output);
  void add_mutation(int32_t index, const Mutation& mutation);
  void add_output_memory();
  hlo::Value reordered(const Tensor& tensor, const Order& order);
  // A value that the program gives back, in that memory order.
  void add_result(ProgramResult::Kind kind, int32_t index, const Tensor& tensor,
                  const Order& order);

  const Graph& graph_;
  const Signature& signature_;
  const Options& options_;
  hlo::Builder builder_;
  Program program_;
  std::vector<std::optional<Tensor>> values_;
  std::vector<int32_t> input_of_value_;  // -1: no input
  std::vector<int32_t> node_of_value_;   // in nodes_; -1: given by the call, or to a region
  std::vector<int> depth_of_value_;      // of regions around it
  std::vector<const Node*> nodes_;       // those of a node's regions follow it
  std::vector<int> depth_of_node_;
  std::unordered_map<const Node*, size_t> index_of_node_;
  std::vector<bool> lowered_;                               // nodes
  std::vector<bool> used_;                                  // values
  std::vector<bool> structural_;                            // symbols
  std::unordered_map<ValueId, const SymType*> parameters_;  // of regions
  std::unordered_map<const Node*, Status> statuses_;
  // HLO value -> the mutated input that it is equal to where the checks fail.
  std::map<int32_t, int32_t> kept_;
  bool permit_taken_ = false;     // by the node that is being lowered
  std::optional<hlo::Value> ok_;  // 0-d: the checks pass; none if there are no checks
  std::optional<hlo::Value> status_;
  std::map<const Node*, std::vector<hlo::Value>> bad_;  // 0-d: what the node's checks found
  std::vector<int32_t> result_of_input_;                // that may take its memory; -1: none
  std::vector<bool> is_mutated_;                        // inputs
  std::map<ValueId, int32_t> draw_of_value_;
  std::vector<DType> dtypes_;
  std::vector<int64_t> ranks_;
  std::map<int32_t, hlo::Value> scalars_;
  std::vector<hlo::Value> results_;
};

}  // namespace torch_pjrt::lower
