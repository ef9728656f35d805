// Which memory order of an input the platform reads best.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "lower/lower.h"
#include "lower/order.h"

namespace torch_pjrt::lower {

struct Preference {
  Order order;
  int64_t least_bytes;  // a smaller input isn't worth a copy in that order
  int64_t most_bytes;   // a larger one's copy gains less than it takes, unless it is made for good

  auto operator<=>(const Preference&) const = default;
};

// For each graph input the order in which all that read it want it; none where it doesn't matter or
// they differ. XLA's CPU plugin lays out a convolution's kernel window first, then the channels in,
// then those out, and the second operand of a product of matrices as the schema has it; it does so
// at each call for what comes in another order. A depthwise convolution reads its kernel element by
// element, each of all channels.
std::vector<std::optional<Preference>> preferred_orders(const Graph& graph, const Options& options);

}  // namespace torch_pjrt::lower
