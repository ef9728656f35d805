// Reading by index tensors.
#include <algorithm>

#include "base/error.h"
#include "lower/check.h"
#include "lower/positions.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

Results embedding(const Call& c) {
  const Tensor weight = c.tensor("weight");
  const Tensor indices = c.convert(c.tensor("indices"), DType::kI64);
  hlo::Gather g;
  g.offset_dims = {indices.rank()};
  g.collapsed_slice_dims = {0};
  g.start_index_map = {0};
  g.index_vector_dim = indices.rank();
  g.slice_sizes = {1, weight.dims()[1]};
  return c.wrap(c.build().gather(weight.value, with_last_dim(c, indices).value, g));
}

// One element of `t` for each position of element_positions.
Tensor elements_at(const Call& c, const Tensor& t, const hlo::Value& positions) {
  hlo::Gather g;
  g.collapsed_slice_dims = g.start_index_map = row_major(t.rank());
  g.index_vector_dim = positions.type.rank() - 1;
  g.slice_sizes = Dims(t.rank(), 1);
  return c.wrap(c.build().gather(t.value, positions, g));
}

// result[i][j].. = self[i][index[i][j]..].. along `dim`.
Results gather(const Call& c) {
  const Tensor self = c.tensor("self");
  if (self.rank() == 0) return c.reshape(c.broadcast(self, {1}), c.result().dims);
  Tensor index = c.tensor("index");
  if (index.rank() == 0) index = c.reshape(index, {1});
  const int64_t dim = c.axis("dim", self.rank());
  if (c.result().num_elements() == 0) return c.wrap(c.build().constant(0, c.result()));
  const Tensor at = wrapped(c, index, self.dims()[dim]);
  return c.reshape(elements_at(c, self, element_positions(c, at, dim)), c.result().dims);
}

Tensor selected(const Call& c, const Tensor& self,
                const std::vector<std::optional<Tensor>>& indices) {
  if (c.result().num_elements() == 0) return c.wrap(c.build().constant(0, c.result()));
  const Selection s = select_positions(c, self.dims(), indices);
  hlo::Gather g;
  g.collapsed_slice_dims = g.start_index_map = s.indexed;
  g.index_vector_dim = static_cast<int64_t>(s.shape.size());
  g.slice_sizes = self.dims();
  for (const int64_t d : s.indexed) g.slice_sizes[d] = 1;
  g.offset_dims = s.window;
  return c.wrap(c.build().gather(self.value, s.starts, g));
}

Results index(const Call& c) {
  return selected(c, c.tensor("self"), c.optional_tensors("indices"));
}

Results index_select(const Call& c) {
  Tensor self = c.tensor("self");
  const bool is_0d = self.rank() == 0;
  if (is_0d) self = c.reshape(self, {1});
  Tensor at = c.tensor("index");
  if (at.rank() == 0) at = c.reshape(at, {1});
  if (is_0d && at.dims()[0] != 1) c.unsupported("other than one element of a tensor without dims");
  std::vector<std::optional<Tensor>> indices(c.axis("dim", self.rank()));
  indices.emplace_back(at);
  return c.reshape(selected(c, self, indices), c.result().dims);
}

// How many of the sorted numbers of a row are before each value: a binary search in as many steps
// as the row's size has bits. `right`: equal numbers count too.
Tensor rank_in(const Call& c, const Tensor& sorted, const Tensor& values, bool right) {
  const Dims dims = values.dims();
  const int64_t size = sorted.dims().back();
  const int64_t last = values.rank() - 1;
  const auto i64 = [&](int64_t v) { return c.wrap(c.build().constant(v, {DType::kI64, dims})); };
  int64_t step = 1;
  while (step <= size) step *= 2;
  Tensor count = i64(0);
  for (step /= 2; step > 0; step /= 2) {
    const Tensor next = c.emit(Op::kAdd, {count, i64(step)});
    const Tensor inside = c.compare(hlo::Direction::kLe, next, i64(size));
    const Tensor probe = c.emit(
        Op::kMinimum, {c.emit(Op::kSubtract, {next, i64(1)}), i64(std::max<int64_t>(size - 1, 0))});
    const Tensor number = sorted.rank() == 1
                              ? elements_at(c, sorted, with_last_dim(c, probe).value)
                              : elements_at(c, sorted, element_positions(c, probe, last));
    // NaN stands after all numbers.
    Tensor before = c.compare(right ? hlo::Direction::kLe : hlo::Direction::kLt, number, values);
    if (is_floating(values.dtype())) {
      const Tensor nan = c.compare(hlo::Direction::kNe, values, values);
      const Tensor is_number = c.compare(hlo::Direction::kEq, number, number);
      before = c.emit(Op::kOr, {before, right ? nan : c.emit(Op::kAnd, {nan, is_number})});
    }
    count = c.select(c.emit(Op::kAnd, {inside, before}), next, count);
  }
  return count;
}

// `sorted`: of the dtype that both have in common.
Results search(const Call& c, const Tensor& sorted, ArgKey value, bool right) {
  const DType dtype = promote(sorted.dtype(), c.dtype(value));
  const Tensor numbers = c.convert(sorted, dtype);
  const Tensor values =
      c.convert(c.is_tensor(value) ? c.tensor(value) : c.scalar(value, dtype), dtype);
  return c.convert(rank_in(c, numbers, values, right), c.result().dtype);
}

Results bucketize(const Call& c) { return search(c, c.tensor("boundaries"), 0, c.flag("right")); }

Results searchsorted(const Call& c) {
  Tensor sequence = c.tensor("sorted_sequence");
  if (!c.is_none("sorter") && sequence.value.type.num_elements() != 0) {
    const int64_t last = sequence.rank() - 1;
    const Tensor at = wrapped(c, c.tensor("sorter"), sequence.dims()[last]);
    sequence = elements_at(c, sequence, element_positions(c, at, last));
  }
  return search(c, sequence, 1, c.flag("right") || c.string_or("side", "") == "right");
}

std::vector<Failure> check_searchsorted(const Call& c) {
  if (c.is_none("sorter")) return {};
  const int64_t size = c.type("sorted_sequence").dims.back();
  return check_range(
      c, c.any_order("sorter"), 0, size - 1,
      {Problem::Kind::kRuntimeError, "torch.searchsorted(): sorter index out of range"});
}

std::vector<Failure> check_embedding(const Call& c) {
  if (c.result().num_elements() == 0) return {};
  const int64_t size = c.type("weight").dims[0];
  if (c.known_limit("indices").value_or(kNowhere) <= size) return {};
  return check_range(c, c.any_order("indices"), 0, size - 1,
                     {Problem::Kind::kIndexError, "index out of range in self"});
}

// Eager has a kernel of its own for dim 1.
std::vector<Failure> check_index_select(const Call& c) {
  if (c.result().num_elements() == 0) return {};
  const Dims dims = c.type("self").dims;
  const int64_t dim = c.axis("dim", static_cast<int64_t>(dims.size()));
  const int64_t size = dims.empty() ? 1 : dims[dim];
  if (c.known_limit("index").value_or(kNowhere) <= size) return {};
  Problem problem{Problem::Kind::kIndexError, "index out of range in self"};
  if (dim == 1)
    problem = {Problem::Kind::kRuntimeError,
               str("INDICES element is out of DATA bounds, id={} axis_dim=", size)};
  return check_range(c, c.any_order("index"), 0, size - 1, problem);
}

constexpr Entry kRules[] = {
    {"aten::bucketize.Scalar", bucketize},
    {"aten::bucketize.Tensor", bucketize},
    {"aten::embedding", embedding, {}, check_embedding},
    {"aten::gather", gather, {}, check_element_index},
    {"aten::index.Tensor", index, {}, check_indices},
    {"aten::index_select", index_select, {}, check_index_select},
    {"aten::searchsorted.Scalar", searchsorted, {}, check_searchsorted},
    {"aten::searchsorted.Tensor", searchsorted, {}, check_searchsorted},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> indexing_rules() { return kRules; }

}  // namespace torch_pjrt::lower
