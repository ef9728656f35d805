#include "hlo/builder.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "hlo/literal.h"
#include "hlo/require.h"

namespace torch_pjrt::hlo {
namespace {

// Arguments of @main count down from here, statements' results and regions' arguments up from 0.
constexpr int32_t kFirstArgument = -2;

// Ops that StableHLO lacks, and that every plugin composes of others.
constexpr std::string_view kComposed[] = {
    "digamma", "erf", "erf_inv", "erfc", "lgamma", "next_after", "polygamma", "zeta",
};

std::string name(const Value& v) {
  return v.id >= 0 ? "%" + std::to_string(v.id) : "%a" + std::to_string(kFirstArgument - v.id);
}

template <class T, class Text>
std::string joined(std::span<const T> items, Text&& text) {
  std::string result;
  for (size_t i = 0; i < items.size(); ++i) result += (i ? ", " : "") + text(items[i]);
  return result;
}

std::string names(std::span<const Value> values) { return joined(values, name); }

std::string types(std::span<const Value> values) {
  return joined(values, [](const Value& v) { return tensor(v.type); });
}

// "%0: tensor<f32>, %1: tensor<f32>"
std::string declarations(std::span<const Value> values) {
  return joined(values, [](const Value& v) { return name(v) + ": " + tensor(v.type); });
}

// The text with ids from `first` on counted from 0, so that equal statements with regions are
// equal.
std::string relative(const std::string& text, int32_t first) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    result += c;
    ++i;
    if (c != '%' || text[i] == 'a') continue;
    int32_t id = 0;
    const size_t start = i;
    for (; text[i] >= '0' && text[i] <= '9'; ++i) id = id * 10 + (text[i] - '0');
    result += id < first ? text.substr(start, i - start) : "+" + std::to_string(id - first);
  }
  return result;
}

std::string indentation(size_t depth) { return std::string(2 + 2 * depth, ' '); }

}  // namespace

bool are_dims(std::span<const int64_t> values, int64_t rank) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= rank || contains(values.first(i), values[i])) return false;
  }
  return true;
}

bool are_increasing(std::span<const int64_t> values) {
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

bool contains(std::span<const int64_t> values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

Value Builder::argument(const Type& type, const std::string& attributes) {
  const Value v{kFirstArgument - num_arguments_++, type};
  if (!arguments_.empty()) arguments_ += ", ";
  arguments_ += declarations(only(v));
  if (!attributes.empty()) arguments_ += " " + attributes;
  return v;
}

void Builder::require_usable(const std::string& op, std::span<const Value> values) const {
  const int32_t least_id = blocks_.back().least_id;
  for (const Value& v : values) {
    require((v.id >= 0 && v.id < next_id_) ||
                (v.id <= kFirstArgument && v.id > kFirstArgument - num_arguments_),
            op, values, "a value is not of this program");
    require(v.id >= least_id, op, values,
            "a value is from outside a region that may only use its own: make it inside");
  }
}

std::vector<Value> Builder::statement(const std::string& op, std::span<const Value> operands,
                                      const Attributes& attributes, std::span<const Type> results,
                                      std::span<const RegionText> regions) {
  require_usable(op, operands);
  const bool is_composed = std::ranges::find(kComposed, op) != std::end(kComposed);
  const char* dialect = is_composed ? "chlo." : "stablehlo.";
  std::string text = str("\"", dialect, op, "\"(", names(operands), ")");
  if (!regions.empty()) {
    text += " (" + joined(regions, [](const RegionText& r) { return r.text; }) + ")";
  }
  if (!attributes.empty()) {
    const char* separator = " {";
    for (const auto& [key, value] : attributes) {
      text += str(separator, key, " = ", value);
      separator = ", ";
    }
    text += '}';
  }
  const std::string result_types = joined(results, tensor);
  text += " : (" + types(operands) + ") -> " +
          (results.size() == 1 ? result_types : "(" + result_types + ")");

  int32_t id =
      line(text, regions.empty() ? text : relative(text, regions.front().first_id), results.size());
  std::vector<Value> values;
  for (const Type& type : results) values.push_back({id++, type});
  return values;
}

int32_t Builder::line(const std::string& text, const std::string& key, size_t num_results) {
  Block& block = blocks_.back();
  const auto [it, is_new] = block.seen.try_emplace(key, next_id_);
  if (is_new) {
    std::vector<Value> results;
    for (size_t k = 0; k < num_results; ++k) results.push_back({next_id_++, {}});
    block.text += indentation(blocks_.size());
    if (!results.empty()) block.text += names(results) + " = ";
    block.text += text + "\n";
  }
  return it->second;
}

Value Builder::one(const std::string& op, std::span<const Value> operands,
                   const Attributes& attributes, Type result, std::span<const RegionText> regions) {
  return statement(op, operands, attributes, {&result, 1}, regions)[0];
}

Builder::RegionText Builder::region(const std::string& op, std::span<const Type> arguments,
                                    std::span<const Type> results, const Region& body) {
  const int32_t first_id = next_id_;
  std::vector<Value> values;
  for (const Type& type : arguments) values.push_back({next_id_++, type});
  const int32_t least_id = op == "while" || op == "if" ? blocks_.back().least_id : first_id;
  blocks_.push_back({.text = "", .seen = {}, .least_id = least_id});
  const std::vector<Value> returned = body(values);
  require_usable(op, returned);
  require(std::equal(returned.begin(), returned.end(), results.begin(), results.end(),
                     [](const Value& v, const Type& type) { return v.type == type; }),
          op, values, "the region returns (", types(returned), "), not (", joined(results, tensor),
          ")");
  const std::string inner = indentation(blocks_.size());
  std::string text = std::move(blocks_.back().text);
  blocks_.pop_back();
  const std::string outer = indentation(blocks_.size());
  const std::string label = values.empty() ? "" : outer + "^bb0(" + declarations(values) + "):\n";
  text = "{\n" + label + text + inner + "\"stablehlo.return\"(" + names(returned) + ") : (" +
         types(returned) + ") -> ()\n" + outer + "}";
  return {std::move(text), first_id};
}

std::string Builder::module(std::span<const Value> results) const {
  std::string text = "module @program {\n  func.func public @main(" + arguments_ + ") -> (" +
                     types(results) + ") {\n" + blocks_.front().text + indentation(1) + "return";
  if (!results.empty()) text += " " + names(results) + " : " + types(results);
  return text + "\n  }\n}\n";
}

Value Builder::constant(double value, const Type& type) {
  return one("constant", {},
             {{"value", "dense<" + literal(value, type.dtype) + "> : " + tensor(type)}}, type);
}

Value Builder::constant(int64_t value, const Type& type) {
  return one("constant", {},
             {{"value", "dense<" + literal(value, type.dtype) + "> : " + tensor(type)}}, type);
}

Value Builder::constant(std::complex<double> value, const Type& type) {
  return one("constant", {},
             {{"value", "dense<" + literal(value, type.dtype) + "> : " + tensor(type)}}, type);
}

Value Builder::constant_list(std::span<const int64_t> values, DType dtype) {
  const Type type{dtype, {static_cast<int64_t>(values.size())}};
  const std::string items = joined(values, [&](int64_t v) { return literal(v, dtype); });
  const std::string content = values.empty() ? "" : "[" + items + "]";
  return one("constant", {}, {{"value", "dense<" + content + "> : " + tensor(type)}}, type);
}

Value Builder::iota(int64_t dim, const Type& type) {
  require(dim >= 0 && dim < type.rank() && type.dtype != DType::kBool, "iota", {}, "dim ", dim,
          " of ", to_string(type));
  return one("iota", {}, {{"iota_dimension", i64(dim)}}, type);
}

Value Builder::zero_at_run_time(DType dtype) {
  const std::string replica = "\"stablehlo.replica_id\"() : () -> tensor<ui32>";
  const int32_t id = line(replica, replica, 1);
  const Type type{dtype, {}};
  const std::string converted =
      str("\"stablehlo.convert\"(%", id, ") : (tensor<ui32>) -> ", tensor(type));
  return {line(converted, converted, 1), type};
}

}  // namespace torch_pjrt::hlo
