// Contractions, and ops that index by data.
#include <algorithm>

#include "hlo/builder.h"
#include "hlo/literal.h"
#include "hlo/require.h"
#include "hlo/window.h"

namespace torch_pjrt::hlo {
namespace {

using Indices = std::vector<int64_t>;

Indices concatenated(const Indices& a, const Indices& b) {
  Indices result = a;
  result.insert(result.end(), b.begin(), b.end());
  return result;
}

// The dims of a tensor of rank `rank` that are not in `dims`.
Indices others(int64_t rank, const Indices& dims) {
  Indices result;
  for (int64_t i = 0; i < rank; ++i) {
    if (!contains(dims, i)) result.push_back(i);
  }
  return result;
}

bool increasing_dims(const Indices& dims, int64_t rank) {
  return are_increasing(dims) && are_dims(dims, rank);
}

bool same_size(const Indices& a, const Indices& b) { return a.size() == b.size(); }

// E.g. "[b, 0, 1, f]".
std::string dim_numbers(int64_t first, char first_name, int64_t second, char second_name,
                        const Indices& spatial) {
  std::vector<std::string> names(spatial.size() + 2);
  names[first] = first_name;
  names[second] = second_name;
  for (size_t i = 0; i < spatial.size(); ++i) names[spatial[i]] = std::to_string(i);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "[" : ", ") + name;
  return text + "]";
}

// Whether the dim numbers of one tensor of a convolution are all of its dims.
bool is_layout(int64_t first, int64_t second, const Indices& spatial, int64_t rank) {
  const Indices all = concatenated({first, second}, spatial);
  return static_cast<int64_t>(all.size()) == rank && are_dims(all, rank);
}

// Of the dims of gather's or scatter's indices: all but index_vector_dim.
Dims batch_sizes(const Type& indices, int64_t index_vector_dim) {
  Dims sizes = indices.dims;
  if (index_vector_dim < indices.rank()) sizes.erase(sizes.begin() + index_vector_dim);
  return sizes;
}

// What gather and scatter have in common, by the names of gather's.
void require_indexing(const std::string& op, std::span<const Value> operands,
                      const Indices& dropped, const Indices& batching,
                      const Indices& index_batching, const Indices& map, int64_t index_vector_dim) {
  const Type& operand = operands[0].type;
  const Type& indices = operands[1].type;
  require(is_integer(indices.dtype), op, operands, "the indices are integers");
  require(0 <= index_vector_dim && index_vector_dim <= indices.rank(), op, operands,
          "index_vector_dim ", index_vector_dim);
  const int64_t length = index_vector_dim == indices.rank() ? 1 : indices.dims[index_vector_dim];
  require(are_dims(map, operand.rank()) && static_cast<int64_t>(map.size()) == length, op, operands,
          "an index of ", length, " goes to dims ", to_string(map));
  require(increasing_dims(dropped, operand.rank()) && increasing_dims(batching, operand.rank()) &&
              are_dims(concatenated(dropped, batching), operand.rank()) &&
              are_dims(concatenated(map, batching), operand.rank()),
          op, operands, "dropped dims ", to_string(dropped), ", batching dims ",
          to_string(batching));
  bool fits = are_dims(index_batching, indices.rank()) && same_size(batching, index_batching) &&
              !contains(index_batching, index_vector_dim);
  for (size_t i = 0; fits && i < batching.size(); ++i) {
    fits = operand.dims[batching[i]] == indices.dims[index_batching[i]];
  }
  require(fits, op, operands, "batching dims ", to_string(batching), " and ",
          to_string(index_batching));
}

// One "name = [..]" for each list that isn't empty, and the index vector's dim.
std::string index_numbers(std::span<const std::pair<const char*, const Indices*>> lists,
                          int64_t index_vector_dim) {
  std::string text;
  for (const auto& [name, values] : lists) {
    if (!values->empty()) text += std::string(name) + " = " + list(*values) + ", ";
  }
  return text + "index_vector_dim = " + std::to_string(index_vector_dim);
}

}  // namespace

Value Builder::dot_general(const Value& a, const Value& b, const Indices& batch_a,
                           const Indices& batch_b, const Indices& contract_a,
                           const Indices& contract_b, DType result) {
  const std::string op = "dot_general";
  const Value operands[] = {a, b};
  const Indices used_a = concatenated(batch_a, contract_a);
  const Indices used_b = concatenated(batch_b, contract_b);
  bool fits = same_size(batch_a, batch_b) && same_size(contract_a, contract_b) &&
              are_dims(used_a, a.type.rank()) && are_dims(used_b, b.type.rank());
  for (size_t i = 0; fits && i < used_a.size(); ++i) {
    fits = a.type.dims[used_a[i]] == b.type.dims[used_b[i]];
  }
  require(fits, op, operands, "batch dims ", to_string(batch_a), " and ", to_string(batch_b),
          ", contracted ", to_string(contract_a), " and ", to_string(contract_b));
  Type type{result, {}};
  for (const int64_t dim : batch_a) type.dims.push_back(a.type.dims[dim]);
  for (const int64_t dim : others(a.type.rank(), used_a)) type.dims.push_back(a.type.dims[dim]);
  for (const int64_t dim : others(b.type.rank(), used_b)) type.dims.push_back(b.type.dims[dim]);

  std::string numbers;
  const std::pair<const char*, const Indices*> lists[] = {
      {"lhs_batching_dimensions", &batch_a},
      {"rhs_batching_dimensions", &batch_b},
      {"lhs_contracting_dimensions", &contract_a},
      {"rhs_contracting_dimensions", &contract_b}};
  for (const auto& [name, dims] : lists) {
    numbers += (numbers.empty() ? "" : ", ") + std::string(name) + " = " + list(*dims);
  }
  const std::string precision = "#stablehlo<precision " + precision_ + ">";
  return one(op, operands,
             {{"dot_dimension_numbers", "#stablehlo.dot<" + numbers + ">"},
              {"precision_config", "[" + precision + ", " + precision + "]"}},
             type);
}

Value Builder::convolution(const Value& input, const Value& kernel, const Convolution& c,
                           DType result) {
  const std::string op = "convolution";
  const Value operands[] = {input, kernel};
  const int64_t rank = input.type.rank();
  const size_t spatial = c.input_spatial.size();
  require(kernel.type.rank() == rank && static_cast<int64_t>(spatial) == rank - 2 &&
              is_layout(c.input_batch, c.input_feature, c.input_spatial, rank) &&
              is_layout(c.kernel_input_feature, c.kernel_output_feature, c.kernel_spatial, rank) &&
              is_layout(c.output_batch, c.output_feature, c.output_spatial, rank),
          op, operands, "its dim numbers are not its dims");
  for (const Indices* values : {&c.strides, &c.low, &c.high, &c.lhs_dilation, &c.rhs_dilation}) {
    require(values->size() == spatial, op, operands, "its window is of another rank");
  }
  const int64_t batch = input.type.dims[c.input_batch];
  const int64_t features = kernel.type.dims[c.kernel_output_feature];
  const int64_t groups = c.feature_group_count;
  require(groups > 0 && c.batch_group_count > 0 && (groups == 1 || c.batch_group_count == 1) &&
              features % groups == 0 && batch % c.batch_group_count == 0 &&
              features % c.batch_group_count == 0 &&
              input.type.dims[c.input_feature] == kernel.type.dims[c.kernel_input_feature] * groups,
          op, operands, groups, " feature groups, ", c.batch_group_count, " batch groups");
  Type type{result, Dims(static_cast<size_t>(rank))};
  type.dims[c.output_batch] = batch / c.batch_group_count;
  type.dims[c.output_feature] = features;
  for (size_t i = 0; i < spatial; ++i) {
    const WindowDim window{kernel.type.dims[c.kernel_spatial[i]],
                           c.strides[i],
                           c.low[i],
                           c.high[i],
                           c.lhs_dilation[i],
                           c.rhs_dilation[i]};
    require(window.is_valid(), op, operands, "its window is empty or has a step below 1");
    type.dims[c.output_spatial[i]] = window.positions(input.type.dims[c.input_spatial[i]]);
  }
  const std::string precision = "#stablehlo<precision " + precision_ + ">";
  return one(
      op, operands,
      {{"batch_group_count", i64(c.batch_group_count)},
       {"dimension_numbers",
        "#stablehlo.conv<" +
            dim_numbers(c.input_batch, 'b', c.input_feature, 'f', c.input_spatial) + "x" +
            dim_numbers(c.kernel_input_feature, 'i', c.kernel_output_feature, 'o',
                        c.kernel_spatial) +
            "->" + dim_numbers(c.output_batch, 'b', c.output_feature, 'f', c.output_spatial) + ">"},
       {"feature_group_count", i64(groups)},
       {"lhs_dilation", array(c.lhs_dilation)},
       {"padding", padding(c.low, c.high)},
       {"precision_config", "[" + precision + ", " + precision + "]"},
       {"rhs_dilation", array(c.rhs_dilation)},
       {"window_strides", array(c.strides)}},
      type);
}

Value Builder::triangular_solve(const Value& a, const Value& b, bool left, bool lower, bool unit) {
  const std::string op = "triangular_solve";
  const Value operands[] = {a, b};
  const int64_t rank = a.type.rank();
  bool fits = rank >= 2 && b.type.rank() == rank && a.type.dtype == b.type.dtype &&
              (is_floating(a.type.dtype) || is_complex(a.type.dtype));
  for (int64_t i = 0; fits && i < rank - 2; ++i) fits = a.type.dims[i] == b.type.dims[i];
  fits = fits && a.type.dims[rank - 1] == a.type.dims[rank - 2] &&
         a.type.dims[rank - 1] == b.type.dims[left ? rank - 2 : rank - 1];
  require(fits, op, operands, "the matrices don't fit each other");
  return one(op, operands,
             {{"left_side", boolean(left)},
              {"lower", boolean(lower)},
              {"transpose_a", "#stablehlo<transpose NO_TRANSPOSE>"},
              {"unit_diagonal", boolean(unit)}},
             b.type);
}

Value Builder::gather(const Value& operand, const Value& indices, const Gather& g) {
  const std::string op = "gather";
  const Value operands[] = {operand, indices};
  require_indexing(op, operands, g.collapsed_slice_dims, g.operand_batching_dims,
                   g.start_indices_batching_dims, g.start_index_map, g.index_vector_dim);
  const int64_t rank = operand.type.rank();
  const Indices dropped = concatenated(g.collapsed_slice_dims, g.operand_batching_dims);
  bool fits = static_cast<int64_t>(g.slice_sizes.size()) == rank;
  for (int64_t i = 0; fits && i < rank; ++i) {
    fits = 0 <= g.slice_sizes[i] && g.slice_sizes[i] <= operand.type.dims[i] &&
           (g.slice_sizes[i] <= 1 || !contains(dropped, i));
  }
  require(fits, op, operands, "slice sizes ", to_string(g.slice_sizes));

  const Indices kept = others(rank, dropped);
  const Dims batch = batch_sizes(indices.type, g.index_vector_dim);
  const auto result_rank = static_cast<int64_t>(batch.size() + kept.size());
  require(same_size(g.offset_dims, kept) && increasing_dims(g.offset_dims, result_rank), op,
          operands, "offset dims ", to_string(g.offset_dims));
  Type type{operand.type.dtype, {}};
  for (size_t next_batch = 0, next_kept = 0; type.rank() < result_rank;) {
    type.dims.push_back(contains(g.offset_dims, type.rank()) ? g.slice_sizes[kept[next_kept++]]
                                                             : batch[next_batch++]);
  }
  const std::pair<const char*, const Indices*> lists[] = {
      {"offset_dims", &g.offset_dims},
      {"collapsed_slice_dims", &g.collapsed_slice_dims},
      {"operand_batching_dims", &g.operand_batching_dims},
      {"start_indices_batching_dims", &g.start_indices_batching_dims},
      {"start_index_map", &g.start_index_map}};
  return one(
      op, operands,
      {{"dimension_numbers", "#stablehlo.gather<" + index_numbers(lists, g.index_vector_dim) + ">"},
       {"indices_are_sorted", boolean(g.indices_are_sorted)},
       {"slice_sizes", array(g.slice_sizes)}},
      type);
}

Value Builder::scatter(const Value& operand, const Value& indices, const Value& updates,
                       const Scatter& s, const Region& combine) {
  const std::string op = "scatter";
  const Value operands[] = {operand, indices, updates};
  require_indexing(op, operands, s.inserted_window_dims, s.input_batching_dims,
                   s.scatter_indices_batching_dims, s.scatter_dims_to_operand_dims,
                   s.index_vector_dim);
  const int64_t rank = updates.type.rank();
  const Indices kept =
      others(operand.type.rank(), concatenated(s.inserted_window_dims, s.input_batching_dims));
  const Dims batch = batch_sizes(indices.type, s.index_vector_dim);
  bool fits = updates.type.dtype == operand.type.dtype && same_size(s.update_window_dims, kept) &&
              increasing_dims(s.update_window_dims, rank) &&
              rank == static_cast<int64_t>(batch.size() + kept.size());
  size_t next_batch = 0, next_kept = 0;
  for (int64_t i = 0; fits && i < rank; ++i) {
    fits = contains(s.update_window_dims, i)
               ? updates.type.dims[i] <= operand.type.dims[kept[next_kept++]]
               : updates.type.dims[i] == batch[next_batch++];
  }
  require(fits, op, operands, "the updates don't fit, window dims ",
          to_string(s.update_window_dims));
  const Type element{operand.type.dtype, {}};
  const Type arguments[] = {element, element};
  const RegionText regions[] = {region(op, arguments, {&element, 1}, combine)};
  const std::pair<const char*, const Indices*> lists[] = {
      {"update_window_dims", &s.update_window_dims},
      {"inserted_window_dims", &s.inserted_window_dims},
      {"input_batching_dims", &s.input_batching_dims},
      {"scatter_indices_batching_dims", &s.scatter_indices_batching_dims},
      {"scatter_dims_to_operand_dims", &s.scatter_dims_to_operand_dims}};
  return one(op, operands,
             {{"indices_are_sorted", boolean(s.indices_are_sorted)},
              {"scatter_dimension_numbers",
               "#stablehlo.scatter<" + index_numbers(lists, s.index_vector_dim) + ">"},
              {"unique_indices", boolean(s.unique_indices)}},
             operand.type, regions);
}

}  // namespace torch_pjrt::hlo
