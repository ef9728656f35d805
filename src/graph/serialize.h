// A Graph as bytes from which it comes back whole: names, sources, hints and numbers too, unlike
// canonical bytes.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace torch_pjrt {

// Raised whenever these bytes change, or the meaning of what a Graph holds.
inline constexpr int kGraphVersion = 1;

std::string to_bytes(const Graph& graph);
// Throws Error(kIo) for bytes that aren't a sound graph's: whatever they are, what it returns can
// be lowered or is refused there by name.
Graph graph_from_bytes(std::string_view bytes);

// Throws Error(kIo), saying what, where a graph isn't sound: a reference to a value, a scalar, an
// expression, an input or an output that isn't there or comes later, or an enumerator that isn't.
void verify(const Graph& graph);

}  // namespace torch_pjrt
