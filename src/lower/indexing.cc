// Reading by index tensors.
#include "base/error.h"
#include "lower/check.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

// i64 indices with negative ones counted from the end of a dim of that size.
Tensor wrapped(const Call& c, const Tensor& index, int64_t size) {
  const Tensor i = c.convert(index, DType::kI64);
  const Tensor negative = c.compare(hlo::Direction::kLt, i, c.splat_like(i, 0));
  return c.select(negative, c.emit(Op::kAdd, {i, c.splat_like(i, static_cast<double>(size))}), i);
}

Tensor with_last_dim(const Call& c, const Tensor& t) {
  Dims dims = t.dims();
  dims.push_back(1);
  return c.reshape(t, dims);
}

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

// result[i][j].. = self[i][index[i][j]..].. along `dim`: one element a start, all other positions
// by iota.
Results gather(const Call& c) {
  const Tensor self = c.tensor("self");
  const Tensor index = c.tensor("index");
  if (self.rank() == 0) return self;
  const int64_t dim = c.axis("dim", self.rank());
  std::vector<hlo::Value> parts;
  for (int64_t d = 0; d < self.rank(); ++d) {
    const Tensor position = d == dim ? wrapped(c, index, self.dims()[d])
                                     : c.wrap(c.build().iota(d, {DType::kI64, index.dims()}));
    parts.push_back(with_last_dim(c, position).value);
  }
  hlo::Gather g;
  g.collapsed_slice_dims = g.start_index_map = row_major(self.rank());
  g.index_vector_dim = index.rank();
  g.slice_sizes = Dims(self.rank(), 1);
  return c.wrap(c.build().gather(self.value, c.build().concatenate(parts, index.rank()), g));
}

// Dims of self that have an index tensor, and what those tensors are broadcast to.
struct IndexedDims {
  std::vector<int64_t> dims;
  Dims shape;
};

IndexedDims indexed_dims(const Call& c, const std::vector<std::optional<Tensor>>& indices) {
  IndexedDims result;
  Dims& shape = result.shape;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    if (indices[d]->dtype() == DType::kBool)
      c.unsupported("a bool mask gives a size that depends on data; use torch.where");
    result.dims.push_back(static_cast<int64_t>(d));
    const Dims dims = indices[d]->dims();
    if (dims.size() > shape.size()) shape.insert(shape.begin(), dims.size() - shape.size(), 1);
    for (size_t k = 0; k < dims.size(); ++k) {
      int64_t& s = shape[shape.size() - dims.size() + k];
      if (s == 1) s = dims[k];
    }
  }
  return result;
}

// self[indices]: adjacent index tensors keep their place, others go first (as NumPy has it).
Results index(const Call& c) {
  const Tensor self = c.tensor("self");
  const std::vector<std::optional<Tensor>> indices = c.optional_tensors("indices");
  const auto [indexed, shape] = indexed_dims(c, indices);
  std::vector<hlo::Value> parts;
  for (const int64_t d : indexed) {
    const Tensor i = c.row_major(c.broadcast(wrapped(c, *indices[d], self.dims()[d]), shape));
    parts.push_back(with_last_dim(c, i).value);
  }
  const auto rank = static_cast<int64_t>(shape.size());
  const bool adjacent =
      indexed.back() - indexed.front() + 1 == static_cast<int64_t>(indexed.size());
  const int64_t place = adjacent ? indexed.front() : 0;
  hlo::Gather g;
  g.collapsed_slice_dims = g.start_index_map = indexed;
  g.index_vector_dim = rank;
  g.slice_sizes = self.dims();
  for (const int64_t d : indexed) g.slice_sizes[d] = 1;
  const int64_t window = self.rank() - static_cast<int64_t>(indexed.size());
  for (int64_t k = 0; k < window; ++k) g.offset_dims.push_back(k < place ? k : k + rank);
  return c.wrap(c.build().gather(self.value, c.build().concatenate(parts, rank), g));
}

std::string out_of_bounds(int64_t dim, int64_t size) {
  return str("index {} is out of bounds for dimension ", dim, " with size ", size);
}

std::vector<Failure> check_embedding(const Call& c) {
  if (c.result().num_elements() == 0) return {};
  const int64_t size = c.type("weight").dims[0];
  return check_range(c, c.any_order("indices"), 0, size - 1,
                     {Problem::Kind::kIndexError, "index out of range in self"});
}

std::vector<Failure> check_gather(const Call& c) {
  const Dims dims = c.type("self").dims;
  const int64_t dim = c.axis("dim", static_cast<int64_t>(dims.size()));
  const int64_t size = dims.empty() ? 1 : dims[dim];
  return check_range(c, c.any_order("index"), 0, size - 1,
                     {Problem::Kind::kRuntimeError, out_of_bounds(dim, size)});
}

// Eager looks at all indices of one element before the next, and counts the index tensors, not
// self's dims.
std::vector<Failure> check_index(const Call& c) {
  if (c.result().num_elements() == 0) return {};
  const std::vector<std::optional<Tensor>> indices = c.optional_tensors("indices");
  const IndexedDims indexed = indexed_dims(c, indices);
  const Dims dims = c.type("self").dims;
  std::vector<Failure> failures;
  std::vector<Tensor> firsts;
  for (const int64_t d : indexed.dims) {
    const int64_t size = dims[d];
    const Tensor i = c.row_major(c.broadcast(*indices[d], indexed.shape));
    firsts.push_back(first_true(c, outside(c, i, -size, size - 1)));
    const auto position = static_cast<int64_t>(failures.size());
    failures.push_back({{},
                        element_at(c, i, firsts.back()),
                        {Problem::Kind::kIndexError, out_of_bounds(position, size)}});
  }
  for (size_t k = 0; k < failures.size(); ++k) {
    const Tensor nowhere = c.splat_like(firsts[k], 0);
    failures[k].bad = c.compare(hlo::Direction::kNe, firsts[k],
                                {c.build().constant(kNowhere, nowhere.value.type), {}});
    for (size_t other = 0; other < failures.size(); ++other) {
      if (other == k) continue;
      const auto direction = other < k ? hlo::Direction::kLt : hlo::Direction::kLe;
      failures[k].bad =
          c.emit(Op::kAnd, {failures[k].bad, c.compare(direction, firsts[k], firsts[other])});
    }
  }
  return failures;
}

constexpr Entry kRules[] = {
    {"aten::embedding", embedding, {}, check_embedding},
    {"aten::gather", gather, {}, check_gather},
    {"aten::index.Tensor", index, {}, check_index},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> indexing_rules() { return kRules; }

}  // namespace torch_pjrt::lower
