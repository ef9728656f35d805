// Ops with regions: reductions, sort and while.
#include <algorithm>

#include "hlo/builder.h"
#include "hlo/literal.h"
#include "hlo/require.h"
#include "hlo/window.h"

namespace torch_pjrt::hlo {
namespace {

std::vector<Value> concatenated(std::span<const Value> a, std::span<const Value> b) {
  std::vector<Value> result(a.begin(), a.end());
  result.insert(result.end(), b.begin(), b.end());
  return result;
}

// The 0-d types of the values, all of them `times` over.
std::vector<Type> element_types(std::span<const Value> values, int times) {
  std::vector<Type> types;
  for (int k = 0; k < times; ++k) {
    for (const Value& v : values) types.push_back({v.type.dtype, {}});
  }
  return types;
}

std::vector<Type> types_of_dims(std::span<const Value> values, const Dims& dims) {
  std::vector<Type> types;
  for (const Value& v : values) types.push_back({v.type.dtype, dims});
  return types;
}

// Some values of one shape.
void require_one_shape(const std::string& op, std::span<const Value> values) {
  require(!values.empty(), op, values, "it takes an operand");
  for (const Value& v : values) {
    require(v.type.dims == values[0].type.dims, op, values, "its operands have different dims");
  }
}

// Values of one shape, each with a 0-d value to start from.
void require_reducible(const std::string& op, std::span<const Value> values,
                       std::span<const Value> inits) {
  require_one_shape(op, values);
  require(values.size() == inits.size(), op, values, "it has ", inits.size(), " initial values");
  for (size_t i = 0; i < values.size(); ++i) {
    require(inits[i].type == Type{values[i].type.dtype, {}}, op, values, "initial value ", i,
            " is of type ", to_string(inits[i].type));
  }
}

// The number of positions of a window along each dim.
Dims positions(const std::string& op, const Value& v, const Window& w) {
  const size_t rank = v.type.dims.size();
  for (const auto* values :
       {&w.sizes, &w.strides, &w.low, &w.high, &w.base_dilations, &w.window_dilations}) {
    require(values->size() == rank, op, only(v), "its window is of another rank");
  }
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    const WindowDim dim{w.sizes[i], w.strides[i],        w.low[i],
                        w.high[i],  w.base_dilations[i], w.window_dilations[i]};
    require(dim.is_valid(), op, only(v), "its window is empty or has a step below 1");
    dims.push_back(dim.positions(v.type.dims[i]));
  }
  return dims;
}

bool all_one(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 1; });
}

}  // namespace

Value Builder::reduce(Op op, const Value& v, const Value& init, const std::vector<int64_t>& dims) {
  if (dims.empty()) return v;
  return reduce(only(v), only(init), dims, [&](std::span<const Value> elements) {
    return std::vector<Value>{elementwise(op, elements)};
  })[0];
}

std::vector<Value> Builder::reduce(std::span<const Value> values, std::span<const Value> inits,
                                   const std::vector<int64_t>& dims, const Region& body) {
  const std::string op = "reduce";
  require_reducible(op, values, inits);
  require(are_dims(dims, values[0].type.rank()), op, values, "over dims ", to_string(dims));
  std::vector<int64_t> sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  Dims rest;
  for (int64_t i = 0; i < values[0].type.rank(); ++i) {
    if (!contains(dims, i)) rest.push_back(values[0].type.dims[i]);
  }
  const RegionText regions[] = {
      region(op, element_types(values, 2), element_types(values, 1), body)};
  return statement(op, concatenated(values, inits), {{"dimensions", array(sorted)}},
                   types_of_dims(values, rest), regions);
}

std::vector<Value> Builder::reduce_window(std::span<const Value> values,
                                          std::span<const Value> inits, const Window& window,
                                          const Region& body) {
  const std::string op = "reduce_window";
  require_reducible(op, values, inits);
  const Dims dims = positions(op, values[0], window);
  const RegionText regions[] = {
      region(op, element_types(values, 2), element_types(values, 1), body)};
  return statement(op, concatenated(values, inits),
                   {{"base_dilations", array(window.base_dilations)},
                    {"padding", padding(window.low, window.high)},
                    {"window_dilations", array(window.window_dilations)},
                    {"window_dimensions", array(window.sizes)},
                    {"window_strides", array(window.strides)}},
                   types_of_dims(values, dims), regions);
}

Value Builder::select_and_scatter(const Value& operand, const Value& source, const Value& init,
                                  const Window& window, const Region& select,
                                  const Region& combine) {
  const std::string op = "select_and_scatter";
  const Value operands[] = {operand, source, init};
  require(all_one(window.base_dilations) && all_one(window.window_dilations), op, operands,
          "it has no dilation");
  const Type element{operand.type.dtype, {}};
  require(source.type == Type{operand.type.dtype, positions(op, operand, window)} &&
              init.type == element,
          op, operands, "its operands don't fit each other");
  const Type arguments[] = {element, element};
  const Type kept{DType::kBool, {}};
  RegionText first = region(op, arguments, {&kept, 1}, select);
  RegionText second = region(op, arguments, {&element, 1}, combine);
  const RegionText regions[] = {std::move(first), std::move(second)};
  return one(op, operands,
             {{"padding", padding(window.low, window.high)},
              {"window_dimensions", array(window.sizes)},
              {"window_strides", array(window.strides)}},
             operand.type, regions);
}

std::vector<Value> Builder::sort(std::span<const Value> values, int64_t dim, bool stable,
                                 const Region& comparator) {
  const std::string op = "sort";
  require_one_shape(op, values);
  require(0 <= dim && dim < values[0].type.rank(), op, values, "along dim ", dim);
  std::vector<Type> arguments;
  std::vector<Type> results;
  for (const Value& v : values) {
    arguments.insert(arguments.end(), 2, {v.type.dtype, {}});
    results.push_back(v.type);
  }
  const Type is_before{DType::kBool, {}};
  const RegionText regions[] = {region(op, arguments, {&is_before, 1}, comparator)};
  return statement(op, values, {{"dimension", i64(dim)}, {"is_stable", boolean(stable)}}, results,
                   regions);
}

std::vector<Value> Builder::while_loop(std::span<const Value> init, const Region& condition,
                                       const Region& body) {
  const std::string op = "while";
  std::vector<Type> state;
  for (const Value& v : init) state.push_back(v.type);
  const Type again{DType::kBool, {}};
  RegionText first = region(op, state, {&again, 1}, condition);
  RegionText second = region(op, state, state, body);
  const RegionText regions[] = {std::move(first), std::move(second)};
  return statement(op, init, {}, state, regions);
}

std::vector<Value> Builder::conditional(const Value& predicate, const Region& on_true,
                                        const Region& on_false, std::span<const Type> results) {
  const std::string op = "if";
  require(predicate.type == Type{DType::kBool, {}}, op, only(predicate), "it takes a 0-d bool");
  RegionText first = region(op, {}, results, on_true);
  RegionText second = region(op, {}, results, on_false);
  const RegionText regions[] = {std::move(first), std::move(second)};
  return statement(op, only(predicate), {}, results, regions);
}

}  // namespace torch_pjrt::hlo
