// The key of a compiled program: everything that can change what the compiler makes.
#pragma once

#include <string>
#include <vector>

#include "cache/key.h"
#include "compile/device.h"
#include "graph/graph.h"
#include "lower/lower.h"

namespace torch_pjrt::compile {

// The name of the key's part that holds structural_values().
inline constexpr const char* kSymbolValues = "symbol values";

// Values of the symbols that reach structure; 0 for the others.
std::vector<int64_t> structural_values(const std::vector<bool>& structural,
                                       const std::vector<int64_t>& symbols);

cache::Key program_key(const std::string& graph_bytes, const std::vector<bool>& structural,
                       const lower::Signature& signature, const lower::Options& options,
                       const std::vector<pjrt::Override>& overrides, const Device& device);

}  // namespace torch_pjrt::compile
