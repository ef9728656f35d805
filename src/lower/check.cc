#include "lower/check.h"

#include <algorithm>

#include "base/error.h"
#include "lower/positions.h"

namespace torch_pjrt::lower {
namespace {

// Everything row-major in one dim.
Tensor flat(const Call& c, const Tensor& t) { return c.reshape(t, {t.value.type.num_elements()}); }

Tensor number(const Call& c, int64_t value) {
  return c.wrap(c.build().constant(value, {DType::kI64, {}}));
}

std::string out_of_bounds(int64_t dim, int64_t size) {
  return str("index {} is out of bounds for dimension ", dim, " with size ", size);
}

// Whether self[indices] has no elements, for a self of those dims.
bool names_nothing(const Dims& self, const IndexedDims& indexed) {
  for (size_t d = 0; d < self.size(); ++d) {
    const bool is_indexed = std::ranges::find(indexed.dims, d) != indexed.dims.end();
    if (!is_indexed && self[d] == 0) return true;
  }
  return std::ranges::find(indexed.shape, 0) != indexed.shape.end();
}

}  // namespace

Tensor first_true(const Call& c, const Tensor& mask) {
  const Tensor m = flat(c, mask);
  const Type type{DType::kI64, m.dims()};
  const Tensor position = c.wrap(c.build().iota(0, type));
  const Tensor nowhere = c.wrap(c.build().constant(kNowhere, type));
  const Tensor bad = c.select(m, position, nowhere);
  return c.wrap(c.build().reduce(Op::kMinimum, bad.value, number(c, kNowhere).value, {0}));
}

Tensor element_at(const Call& c, const Tensor& t, const Tensor& position) {
  const std::vector<hlo::Value> start = {position.value};
  const hlo::Value element = c.build().dynamic_slice(flat(c, t).value, start, {1});
  return c.convert(c.wrap(c.build().reshape(element, {})), DType::kI64);
}

Tensor outside(const Call& c, const Tensor& t, int64_t low, int64_t high) {
  const Tensor i = c.convert(t, DType::kI64);
  const auto bound = [&](int64_t value) {
    return Tensor{c.build().constant(value, i.value.type), i.order};
  };
  return c.emit(Op::kOr, {c.compare(hlo::Direction::kLt, i, bound(low)),
                          c.compare(hlo::Direction::kGt, i, bound(high))});
}

std::vector<Failure> check_range(const Call& c, const Tensor& index, int64_t low, int64_t high,
                                 const Problem& problem) {
  if (index.value.type.num_elements() == 0) return {};
  const Tensor first = first_true(c, outside(c, index, low, high));
  const Tensor bad = c.compare(hlo::Direction::kNe, first, number(c, kNowhere));
  return {{bad, element_at(c, index, first), problem}};
}

std::vector<Failure> check_element_index(const Call& c) {
  const Dims dims = c.type("self").dims;
  const int64_t dim = c.axis("dim", static_cast<int64_t>(dims.size()));
  const int64_t size = dims.empty() ? 1 : dims[dim];
  if (c.known_limit("index").value_or(kNowhere) <= size) return {};
  return check_range(c, c.any_order("index"), 0, size - 1,
                     {Problem::Kind::kRuntimeError, out_of_bounds(dim, size)});
}

// Eager looks at all indices of one element before the next, and counts the index tensors, not
// self's dims.
std::vector<Failure> check_indices(const Call& c) {
  const std::vector<std::optional<Tensor>> indices = c.optional_tensors("indices");
  if (std::ranges::any_of(indices, [](const auto& i) { return i && i->dtype() == DType::kBool; }))
    return {};  // the rule looks at masks
  const IndexedDims indexed = indexed_dims(c, indices);
  const Dims dims = c.type("self").dims;
  if (names_nothing(dims, indexed)) return {};
  std::vector<Failure> failures;
  std::vector<Tensor> firsts;
  for (size_t position = 0; position < indexed.dims.size(); ++position) {
    const int64_t d = indexed.dims[position];
    const int64_t size = dims[d];
    if (c.known_limit("indices", d).value_or(kNowhere) <= size) continue;
    const Tensor i = c.row_major(c.broadcast(*indices[d], indexed.shape));
    firsts.push_back(first_true(c, outside(c, i, -size, size - 1)));
    failures.push_back(
        {{},
         element_at(c, i, firsts.back()),
         {Problem::Kind::kIndexError, out_of_bounds(static_cast<int64_t>(position), size)}});
  }
  // Only the one with the first bad element fails.
  const Tensor nowhere = c.wrap(c.build().constant(kNowhere, {DType::kI64, {}}));
  for (size_t k = 0; k < failures.size(); ++k) {
    failures[k].bad = c.compare(hlo::Direction::kNe, firsts[k], nowhere);
    for (size_t other = 0; other < failures.size(); ++other) {
      if (other == k) continue;
      const auto direction = other < k ? hlo::Direction::kLt : hlo::Direction::kLe;
      failures[k].bad =
          c.emit(Op::kAnd, {failures[k].bad, c.compare(direction, firsts[k], firsts[other])});
    }
  }
  return failures;
}

std::vector<Failure> check_divisor(const Call& c, ArgKey divisor) {
  if (is_floating(c.compute_dtype()) || c.result().num_elements() == 0) return {};
  if (c.is_nonzero(divisor)) return {};
  const Tensor d = c.is_tensor(divisor) ? c.any_order(divisor) : c.scalar(divisor, DType::kI64);
  const Tensor zero = c.compare(hlo::Direction::kEq, d, c.splat_like(d, 0));
  const Tensor bad = c.reduce(Op::kOr, zero, 0, row_major(zero.rank()));
  return {{bad, number(c, 0), {Problem::Kind::kRuntimeError, "ZeroDivisionError"}}};
}

}  // namespace torch_pjrt::lower
