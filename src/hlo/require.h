// How a method of the builder checks its operands.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hlo/builder.h"

namespace torch_pjrt::hlo {

// Throws Error(kInternal) with the op, its operands' types and the parts.
template <class... Parts>
void require(bool holds, std::string_view op, std::span<const Value> operands,
             const Parts&... parts) {
  if (holds) return;
  std::string types;
  for (const Value& v : operands) types += (types.empty() ? "" : ", ") + to_string(v.type);
  fail(Code::kInternal, "stablehlo.", op, "(", types, "): ", parts...);
}

inline std::span<const Value> only(const Value& v) { return {&v, 1}; }

// Whether the values are different dims of a tensor of rank `rank`.
bool are_dims(std::span<const int64_t> values, int64_t rank);
bool are_increasing(std::span<const int64_t> values);
bool contains(std::span<const int64_t> values, int64_t value);

}  // namespace torch_pjrt::hlo
