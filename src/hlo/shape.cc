// Ops that move elements and compute none. Where nothing moves, there is no statement.
#include <algorithm>
#include <numeric>

#include "hlo/builder.h"
#include "hlo/literal.h"
#include "hlo/require.h"

namespace torch_pjrt::hlo {
namespace {

bool all_are(const Dims& dims, int64_t value) {
  return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d == value; });
}

bool has_rank(const Dims& dims, int64_t rank) { return static_cast<int64_t>(dims.size()) == rank; }

std::vector<Value> with_start(std::vector<Value> operands, std::span<const Value> start) {
  operands.insert(operands.end(), start.begin(), start.end());
  return operands;
}

// The operands from `first` on are a start index for each dim of the first operand.
void require_start(const std::string& op, std::span<const Value> operands, size_t first) {
  const auto start = operands.subspan(first);
  require(static_cast<int64_t>(start.size()) == operands[0].type.rank(), op, operands,
          "it takes one start for each dim");
  for (const Value& v : start) {
    require(v.type.rank() == 0 && is_integer(v.type.dtype) && v.type == start[0].type, op, operands,
            "a start is a 0-d integer, all of one type");
  }
}

}  // namespace

Value Builder::broadcast(const Value& v, const Dims& dims,
                         const std::vector<int64_t>& operand_dims) {
  const std::string op = "broadcast_in_dim";
  bool fits = has_rank(operand_dims, v.type.rank()) && are_increasing(operand_dims) &&
              are_dims(operand_dims, static_cast<int64_t>(dims.size()));
  for (size_t i = 0; fits && i < operand_dims.size(); ++i) {
    fits = v.type.dims[i] == 1 || v.type.dims[i] == dims[operand_dims[i]];
  }
  require(fits, op, only(v), "to ", to_string(dims), " at ", to_string(operand_dims));
  if (v.type.dims == dims) return v;
  return one(op, only(v), {{"broadcast_dimensions", array(operand_dims)}}, {v.type.dtype, dims});
}

Value Builder::reshape(const Value& v, const Dims& dims) {
  const Type type{v.type.dtype, dims};
  require(type.num_elements() == v.type.num_elements(), "reshape", only(v), "to ", to_string(dims));
  if (v.type == type) return v;
  return one("reshape", only(v), {}, type);
}

Value Builder::transpose(const Value& v, const std::vector<int64_t>& permutation) {
  require(has_rank(permutation, v.type.rank()) && are_dims(permutation, v.type.rank()), "transpose",
          only(v), "by ", to_string(permutation));
  if (are_increasing(permutation)) return v;
  Dims dims;
  for (const int64_t dim : permutation) dims.push_back(v.type.dims[dim]);
  return one("transpose", only(v), {{"permutation", array(permutation)}}, {v.type.dtype, dims});
}

Value Builder::slice(const Value& v, const Dims& start, const Dims& limit, const Dims& strides) {
  const int64_t rank = v.type.rank();
  bool fits = has_rank(start, rank) && has_rank(limit, rank) && has_rank(strides, rank);
  Dims dims;
  for (int64_t i = 0; fits && i < rank; ++i) {
    fits = 0 <= start[i] && start[i] <= limit[i] && limit[i] <= v.type.dims[i] && strides[i] > 0;
    if (fits) dims.push_back((limit[i] - start[i] + strides[i] - 1) / strides[i]);
  }
  require(fits, "slice", only(v), "from ", to_string(start), " to ", to_string(limit), " by ",
          to_string(strides));
  if (v.type.dims == dims) return v;
  return one("slice", only(v),
             {{"limit_indices", array(limit)},
              {"start_indices", array(start)},
              {"strides", array(strides)}},
             {v.type.dtype, dims});
}

Value Builder::dynamic_slice(const Value& v, std::span<const Value> start, const Dims& sizes) {
  const std::vector<Value> operands = with_start({v}, start);
  require_start("dynamic_slice", operands, 1);
  bool fits = has_rank(sizes, v.type.rank());
  for (size_t i = 0; fits && i < sizes.size(); ++i) {
    fits = 0 <= sizes[i] && sizes[i] <= v.type.dims[i];
  }
  require(fits, "dynamic_slice", operands, "of sizes ", to_string(sizes));
  if (v.type.dims == sizes) return v;  // a start is clamped to what fits
  return one("dynamic_slice", operands, {{"slice_sizes", array(sizes)}}, {v.type.dtype, sizes});
}

Value Builder::dynamic_update_slice(const Value& v, const Value& update,
                                    std::span<const Value> start) {
  const std::vector<Value> operands = with_start({v, update}, start);
  require_start("dynamic_update_slice", operands, 2);
  bool fits = update.type.dtype == v.type.dtype && update.type.rank() == v.type.rank();
  for (int64_t i = 0; fits && i < v.type.rank(); ++i) {
    fits = update.type.dims[i] <= v.type.dims[i];
  }
  require(fits, "dynamic_update_slice", operands, "the update doesn't fit");
  if (update.type == v.type) return update;
  return one("dynamic_update_slice", operands, {}, v.type);
}

Value Builder::pad(const Value& v, const Value& padding, const Dims& low, const Dims& high,
                   const Dims& interior) {
  const Value operands[] = {v, padding};
  const int64_t rank = v.type.rank();
  bool fits = padding.type == Type{v.type.dtype, {}} && has_rank(low, rank) &&
              has_rank(high, rank) && has_rank(interior, rank);
  Dims dims;
  for (int64_t i = 0; fits && i < rank; ++i) {
    const int64_t dim = v.type.dims[i];
    dims.push_back(low[i] + dim + std::max<int64_t>(dim - 1, 0) * interior[i] + high[i]);
    fits = interior[i] >= 0 && dims[i] >= 0;
  }
  require(fits, "pad", operands, "by ", to_string(low), ", ", to_string(high), ", ",
          to_string(interior));
  if (all_are(low, 0) && all_are(high, 0) && all_are(interior, 0)) return v;
  return one("pad", operands,
             {{"edge_padding_high", array(high)},
              {"edge_padding_low", array(low)},
              {"interior_padding", array(interior)}},
             {v.type.dtype, dims});
}

Value Builder::concatenate(std::span<const Value> values, int64_t dim) {
  const std::string op = "concatenate";
  require(!values.empty() && 0 <= dim && dim < values[0].type.rank(), op, values, "at dim ", dim);
  Type type = values[0].type;
  type.dims[dim] = 0;
  for (const Value& v : values) {
    Type rest = v.type;
    if (dim < rest.rank()) {
      type.dims[dim] += rest.dims[dim];
      rest.dims[dim] = type.dims[dim];
    }
    require(rest == type, op, values, "its operands differ beside dim ", dim);
  }
  if (values.size() == 1) return values[0];
  return one(op, values, {{"dimension", i64(dim)}}, type);
}

Value Builder::reverse(const Value& v, const std::vector<int64_t>& dims) {
  require(are_dims(dims, v.type.rank()), "reverse", only(v), "of dims ", to_string(dims));
  if (dims.empty()) return v;
  return one("reverse", only(v), {{"dimensions", array(dims)}}, v.type);
}

}  // namespace torch_pjrt::hlo
