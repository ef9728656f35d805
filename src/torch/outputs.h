// What a call returns beside what its program computes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lower/lower.h"
#include "torch/call.h"

namespace torch_pjrt::aten {

// The outputs of a graph, without the hidden ones: `computed` has those that are kValue.
std::vector<Result> add_outputs(const Graph& graph, std::span<const int64_t> symbols,
                                std::span<const Argument> arguments, std::vector<Result> computed);

// Of an argument, for messages.
std::string describe_input(const Graph& graph, size_t index);

// The scalar's number in a call.
Number number_of(const Scalar& scalar, const Exprs& exprs, std::span<const int64_t> symbols);

// The node's op and the types of its tensors, and the user's line if there is one, for messages.
std::string describe_node(const Graph& graph, size_t node);

// Raises what eager does for this value. `where`: what is added to the message, of a line of its
// own.
[[noreturn]] void raise_problem(const lower::Problem& problem, int64_t value,
                                const std::string& where = "");

}  // namespace torch_pjrt::aten
