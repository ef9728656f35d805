// Views: permutations cost nothing, the rest works in logical order.
#include <algorithm>

#include "lower/rule.h"
#include "lower/slices.h"

namespace torch_pjrt::lower {
namespace {

Results reshape(const Call& c) { return c.reshape(c.any_order(0), c.result().dims); }

// New logical dim k is the old dim dims[k]; nothing is emitted.
Tensor permuted(const Tensor& t, const std::vector<int64_t>& dims) {
  const Order position = inverse(dims);
  Order order;
  for (const int64_t d : t.order) order.push_back(position[d]);
  return {t.value, order};
}

Results permute_dims(const Call& c) {
  const Tensor t = c.any_order(0);
  return permuted(t, c.axes("dims", t.rank()));
}

Results transpose(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.rank() == 0) return t;
  std::vector<int64_t> dims = row_major(t.rank());
  std::swap(dims[c.axis("dim0", t.rank())], dims[c.axis("dim1", t.rank())]);
  return permuted(t, dims);
}

Results t(const Call& c) {
  const Tensor t = c.any_order(0);
  return t.rank() < 2 ? t : permuted(t, {1, 0});
}

Results expand(const Call& c) { return c.broadcast(c.any_order(0), c.result().dims); }

Results select(const Call& c) {
  const Tensor t = c.any_order(0);
  const int64_t dim = c.axis("dim", t.rank());
  return c.reshape(sliced(c, t, dim, start_of(c, "index", t.dims()[dim]), 1), c.result().dims);
}

Results slice(const Call& c) {
  const Tensor t = c.any_order(0);
  const int64_t dim = c.axis("dim", t.rank());
  return sliced(c, t, dim, start_of(c, "start", t.dims()[dim]), c.result().dims[dim],
                c.integer("step"));
}

Results split_at(const Call& c, const Tensor& t, int64_t dim) {
  Results parts;
  int64_t at = 0;
  for (size_t k = 0; k < c.num_results(); ++k) {
    Dims start(t.rank(), 0);
    Dims limit = t.dims();
    start[dim] = at;
    at += c.result(k).dims[dim];
    limit[dim] = at;
    parts.push_back(c.wrap(c.build().slice(t.value, start, limit, Dims(t.rank(), 1))));
  }
  return parts;
}

Results split(const Call& c) {
  const Tensor t = c.tensor(0);
  return split_at(c, t, c.axis("dim", t.rank()));
}

Results cat(const Call& c) {
  std::vector<hlo::Value> values;
  const int64_t rank = c.result().rank();
  for (const Tensor& t : c.tensors("tensors")) {
    if (t.rank() != rank)
      continue;  // the old exception: an empty tensor of rank 1 counts for nothing
    values.push_back(c.convert(t, c.result().dtype).value);
  }
  return c.wrap(c.build().concatenate(values, c.axis("dim", rank)));
}

constexpr Entry kRules[] = {
    {"aten::_unsafe_view", reshape},
    {"aten::cat", cat},
    {"aten::expand", expand},
    {"aten::permute", permute_dims},
    {"aten::select.int", select, {{{"index", Role::kPosition}}}},
    {"aten::slice.Tensor", slice, {{{"start", Role::kPosition}, {"end", Role::kPosition}}}},
    {"aten::split.Tensor", split},
    {"aten::split_with_sizes", split},
    {"aten::squeeze.dim", reshape},
    {"aten::squeeze.dims", reshape},
    {"aten::t", t},
    {"aten::transpose.int", transpose},
    {"aten::unsqueeze", reshape},
    {"aten::view", reshape},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> view_rules() { return kRules; }

}  // namespace torch_pjrt::lower
