// Views: permutations cost nothing, the rest works in logical order.
#include <algorithm>

#include "lower/rule.h"
#include "lower/slices.h"

namespace torch_pjrt::lower {
namespace {

Results view(const Call& c) { return c.view(c.any_order(0), c.result().dims); }

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
  return c.view(sliced(c, t, dim, start_of(c, "index", t.dims()[dim]), 1), c.result().dims);
}

Results slice(const Call& c) {
  const Tensor t = c.any_order(0);
  const int64_t dim = c.axis("dim", t.rank());
  return sliced(c, t, dim, start_of(c, "start", t.dims()[dim]), c.result().dims[dim],
                c.integer("step"));
}

Results split(const Call& c) {
  const Tensor t = c.any_order(0);
  const int64_t dim = c.axis("dim", t.rank());
  Results parts;
  int64_t at = 0;
  for (size_t k = 0; k < c.num_results(); ++k) {
    const int64_t count = c.result(k).dims[dim];
    parts.push_back(sliced(c, t, dim, {at, {}}, count));
    at += count;
  }
  return parts;
}

// In the order of the largest tensor: moving the small ones costs least.
Results cat(const Call& c) {
  std::vector<Tensor> tensors = c.any_order_tensors("tensors");
  const int64_t rank = c.result().rank();
  // The old exception: an empty tensor of rank 1 counts for nothing.
  std::erase_if(tensors, [&](const Tensor& t) { return t.rank() != rank; });
  const auto size = [](const Tensor& t) { return t.value.type.num_elements(); };
  const Order order = std::ranges::max(tensors, {}, size).order;
  std::vector<hlo::Value> values;
  values.reserve(tensors.size());
  for (const Tensor& t : tensors)
    values.push_back(c.reorder(c.convert(t, c.result().dtype), order).value);
  return Tensor{c.build().concatenate(values, inverse(order)[c.axis("dim", rank)]), order};
}

constexpr Entry kRules[] = {
    {"aten::_unsafe_view", view},
    {"aten::cat", cat},
    {"aten::expand", expand},
    {"aten::permute", permute_dims},
    {"aten::select.int", select, {{{"index", Role::kPosition}}}},
    {"aten::slice.Tensor", slice, {{{"start", Role::kPosition}, {"end", Role::kPosition}}}},
    {"aten::split.Tensor", split},
    {"aten::split_with_sizes", split},
    {"aten::squeeze.dim", view},
    {"aten::squeeze.dims", view},
    {"aten::t", t},
    {"aten::transpose.int", transpose},
    {"aten::unsqueeze", view},
    {"aten::view", view},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> view_rules() { return kRules; }

}  // namespace torch_pjrt::lower
