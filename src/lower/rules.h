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

// "; at <the user's line>", or nothing if it isn't known.
std::string at_source(const Node& node);

}  // namespace torch_pjrt::lower
