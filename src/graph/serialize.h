// A Graph as bytes from which it comes back whole: names, sources, hints and numbers too, unlike
// canonical bytes.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace torch_pjrt {

// Raised whenever these bytes change, or the meaning of what a Graph holds.
inline constexpr int kGraphVersion = 3;

std::string to_bytes(const Graph& graph);
// Throws Error(kIo) for bytes that aren't a sound graph's: whatever they are, what it returns can
// be lowered or is refused there by name.
Graph graph_from_bytes(std::string_view bytes);

}  // namespace torch_pjrt
