// The rule table of all families: what has a rule, and which numbers are values.
#pragma once

#include <string>
#include <string_view>

#include "lower/rule.h"

namespace torch_pjrt::lower {

// The entry for an ATen overload, or null.
const Entry* find_rule(std::string_view op);
// The same for complex operands or results.
const Entry* find_complex_rule(std::string_view op);

// Throws kUnsupported, naming the op, the user's line where it is known, and the remedy.
[[noreturn]] void refuse(const Node& node, std::string_view what, std::string_view remedy);

// The remedy for an op that can't be lowered as it is.
inline constexpr std::string_view kRewrite =
    "rewrite the line with other ops, or keep its function out of the compiled one by "
    "torch.compiler.disable";

}  // namespace torch_pjrt::lower
