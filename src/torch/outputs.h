// What a call returns beside what its program computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lower/lower.h"
#include "torch/call.h"

namespace torch_pjrt::aten {

// The outputs of a graph, without the hidden ones: `computed` has those that are kValue.
std::vector<Result> add_outputs(const Graph& graph, std::span<const int64_t> symbols,
                                std::span<const Argument> arguments, std::vector<Result> computed);

// Raises what eager does for this value.
[[noreturn]] void raise_problem(const lower::Problem& problem, int64_t value);

}  // namespace torch_pjrt::aten
