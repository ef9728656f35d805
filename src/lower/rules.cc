#include "lower/rules.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace torch_pjrt::lower {
namespace {

auto families() {
  return std::to_array<std::span<const Entry>>({
      backward_average_pooling_rules(),
      backward_convolution_rules(),
      backward_max_pooling_rules(),
      bessel_rules(),
      bits_rules(),
      checked_rules(),
      compare_rules(),
      complex_rules(),
      control_rules(),
      convolution_rules(),
      create_rules(),
      factor_rules(),
      fourier_rules(),
      incomplete_gamma_rules(),
      indexing_rules(),
      matmul_rules(),
      norm_rules(),
      normal_rules(),
      pointwise_rules(),
      polynomial_rules(),
      pooling_rules(),
      random_counts_rules(),
      random_rules(),
      rearrange_rules(),
      reduction_rules(),
      scan_rules(),
      scatter_rules(),
      sort_rules(),
      special_rules(),
      strided_rules(),
      trigonometry_rules(),
      view_rules(),
  });
}

const Entry* find_in(std::span<const Entry> entries, std::string_view op) {
  const auto it = std::ranges::lower_bound(entries, op, {}, &Entry::op);
  return it != entries.end() && it->op == op ? &*it : nullptr;
}

// x**3 as a value costs 20 times as much as two multiplications.
bool is_small_exponent(const Number* number) {
  if (number == nullptr) return false;
  const double v = number->as_float();
  const double size = std::fabs(v);
  return size == 0.5 || size == 1 || size == 2 || v == 3 || v == 4;
}

}  // namespace

const Entry* find_rule(std::string_view op) {
  for (const std::span<const Entry> entries : families()) {
    if (const Entry* entry = find_in(entries, op)) return entry;
  }
  return nullptr;
}

const Entry* find_complex_rule(std::string_view op) {
  const Entry* entry = find_in(rules_of_complex(), op);
  return entry != nullptr ? entry : find_rule(op);
}

void refuse(const Node& node, std::string_view what, std::string_view remedy) {
  const std::string at = node.source.empty() ? "" : "\n  at: " + node.source;
  fail(Code::kUnsupported, node.op, ": ", what, at, "\n  remedy: ", remedy);
}

bool has_rule(const std::string& op) { return find_rule(op) != nullptr; }

bool is_value(const std::string& op, const std::string& argument, bool is_number_type,
              const Number* number) {
  const Entry* entry = find_rule(op);
  if (entry != nullptr) {
    for (const RoleOf& exception : entry->exceptions) {
      if (exception.argument != argument) continue;
      if (exception.role == Role::kSmallExponent) return !is_small_exponent(number);
      if (exception.role == Role::kPosition) return number == nullptr;
      return exception.role == Role::kValue;
    }
  }
  return is_number_type;
}

std::vector<std::string> ops() {
  std::vector<std::string> names;
  for (const std::span<const Entry> entries : families()) {
    for (const Entry& entry : entries) names.emplace_back(entry.op);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace torch_pjrt::lower
