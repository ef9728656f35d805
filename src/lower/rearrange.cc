// Elements moved, repeated, left out or set among others.
#include <algorithm>

#include "lower/rule.h"
#include "lower/slices.h"

namespace torch_pjrt::lower {
namespace {

Results flip(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.rank() == 0) return t;
  const Order at = inverse(t.order);
  std::vector<int64_t> positions;
  for (const int64_t d : c.integers("dims")) positions.push_back(at[d < 0 ? d + t.rank() : d]);
  return Tensor{c.build().reverse(t.value, positions), t.order};
}

// Each dim d as a pair (repeats[d], size of d), which one reshape makes one.
Results repeat(const Call& c) {
  const Tensor t = c.tensor(0);
  const std::vector<int64_t> repeats = c.integers("repeats");
  const auto added = static_cast<int64_t>(repeats.size()) - t.rank();
  Dims pairs;
  std::vector<int64_t> positions;
  for (int64_t d = 0; d < static_cast<int64_t>(repeats.size()); ++d) {
    pairs.push_back(repeats[d]);
    if (d < added) continue;
    positions.push_back(static_cast<int64_t>(pairs.size()));
    pairs.push_back(t.dims()[d - added]);
  }
  return c.reshape(c.wrap(c.build().broadcast(t.value, pairs, positions)), c.result().dims);
}

// `pad` lists (before, after) from the last dim on; a negative one takes elements away.
Results constant_pad(const Call& c) {
  const Tensor t = c.any_order(0);
  const std::vector<int64_t> pad = c.integers("pad");
  const Order at = inverse(t.order);
  Dims low(t.rank(), 0);
  Dims high(t.rank(), 0);
  for (size_t k = 0; k + 1 < pad.size(); k += 2) {
    const int64_t d = at[t.rank() - 1 - static_cast<int64_t>(k / 2)];
    low[d] = pad[k];
    high[d] = pad[k + 1];
  }
  const Tensor value = c.scalar("value", t.dtype());
  return Tensor{c.build().pad(t.value, value.value, low, high, Dims(t.rank(), 0)), t.order};
}

// The diagonal of dims `dim1` and `dim2` as the last dim: every (columns + 1)-th element of the two
// flattened.
Results diagonal(const Call& c) {
  const Tensor t = c.any_order(0);
  const int64_t first = c.axis("dim1", t.rank());
  const int64_t second = c.axis("dim2", t.rank());
  const int64_t offset = c.integer("offset");
  Order order;  // the two dims last
  Dims dims;
  for (int64_t d = 0; d < t.rank(); ++d) {
    if (d == first || d == second) continue;
    order.push_back(d);
    dims.push_back(t.dims()[d]);
  }
  order.insert(order.end(), {first, second});
  const int64_t rows = t.dims()[first];
  const int64_t columns = t.dims()[second];
  const int64_t count = c.result().dims.back();
  const int64_t start = offset >= 0 ? offset : -offset * columns;
  dims.push_back(rows * columns);
  Dims from(dims.size(), 0);
  Dims to = dims;
  Dims steps(dims.size(), 1);
  from.back() = count == 0 ? 0 : start;
  to.back() = count == 0 ? 0 : start + (count - 1) * (columns + 1) + 1;
  steps.back() = columns + 1;
  const hlo::Value flat = c.build().reshape(c.tensor(0, order).value, dims);
  return c.wrap(c.build().slice(flat, from, to, steps));
}

// Windows of `size` along `dimension`, `step` apart: the windows' elements become the last dim.
Results unfold(const Call& c) {
  Tensor t = c.tensor(0);
  if (t.rank() == 0) t = c.reshape(t, {1});
  const int64_t dim = c.axis("dimension", t.rank());
  const int64_t size = c.integer("size");
  const int64_t step = c.integer("step");
  const int64_t count = c.result().rank() > 1 ? c.result().dims[dim] : 1;
  std::vector<int64_t> positions;
  for (int64_t window = 0; window < count; ++window) {
    for (int64_t k = 0; k < size; ++k) positions.push_back(window * step + k);
  }
  const Tensor index = c.wrap(c.build().constant_list(positions, DType::kI64));
  hlo::Gather g;
  g.collapsed_slice_dims = g.start_index_map = {dim};
  g.index_vector_dim = 1;
  g.slice_sizes = t.dims();
  g.slice_sizes[dim] = 1;
  for (int64_t d = 0; d < t.rank(); ++d) {
    if (d != dim) g.offset_dims.push_back(d);
  }
  const auto num_positions = static_cast<int64_t>(positions.size());
  const hlo::Value starts = c.build().reshape(index.value, {num_positions, 1});
  Dims dims = t.dims();
  dims[dim] = count;
  dims.insert(dims.begin() + dim + 1, size);
  const hlo::Value windows = c.build().reshape(c.build().gather(t.value, starts, g), dims);
  std::vector<int64_t> permutation;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    if (d != dim + 1) permutation.push_back(d);
  }
  permutation.push_back(dim + 1);
  return c.reshape(c.wrap(c.build().transpose(windows, permutation)), c.result().dims);
}

// `src` in the place of self.select(dim, index).
Results select_scatter(const Call& c) {
  const Tensor self = c.any_order(0);
  const int64_t dim = c.axis("dim", self.rank());
  Dims dims = self.dims();
  const Start start = start_of(c, "index", dims[dim]);
  dims[dim] = 1;
  const Tensor src = c.convert(c.reshape(c.tensor("src"), dims), self.dtype());
  return overwritten(c, self, c.reorder(src, self.order), dim, start);
}

// `src` in the place of the slice start:end:step of `dim`.
Results slice_scatter(const Call& c) {
  const Tensor self = c.any_order(0);
  const Tensor src = c.convert(c.tensor("src", self.order), self.dtype());
  const int64_t dim = c.axis("dim", self.rank());
  const int64_t size = self.dims()[dim];
  if (src.dims()[dim] == size) return src;
  return overwritten(c, self, src, dim, start_of(c, "start", size), c.integer("step"));
}

// In another dtype, which isn't bool; a bool is a byte of 0 or 1.
Tensor view_as(const Call& c, Tensor t, DType dtype) {
  hlo::Builder& b = c.build();
  if (t.dtype() == DType::kBool) t.value = b.convert(t.value, DType::kU8);
  const auto from = static_cast<int64_t>(byte_size(t.dtype()));
  const auto to = static_cast<int64_t>(byte_size(dtype));
  if (from == to) return {b.bitcast_convert(t.value, dtype), t.order};
  t = c.row_major(t);
  Dims dims = t.dims();
  if (from < to) {
    dims.back() /= to / from;
    dims.push_back(to / from);
    return c.wrap(b.bitcast_convert(b.reshape(t.value, dims), dtype));
  }
  const hlo::Value parts = b.bitcast_convert(t.value, dtype);
  if (dims.empty()) return c.wrap(parts);
  dims.back() *= from / to;
  return c.wrap(b.reshape(parts, dims));
}

// The same memory as another dtype: elements of the last dim become more or fewer.
Results view_dtype(const Call& c) {
  const DType dtype = c.result().dtype;
  Tensor t = c.any_order(0);
  if (dtype == DType::kBool) {
    t = view_as(c, t, DType::kU8);
    return c.compare(hlo::Direction::kNe, t, c.splat_like(t, 0));
  }
  return view_as(c, t, dtype);
}

constexpr Entry kRules[] = {
    {"aten::constant_pad_nd", constant_pad},
    {"aten::diagonal", diagonal},
    {"aten::flip", flip},
    {"aten::repeat", repeat},
    {"aten::select_scatter", select_scatter, {{{"index", Role::kPosition}}}},
    {"aten::slice_scatter",
     slice_scatter,
     {{{"start", Role::kPosition}, {"end", Role::kPosition}}}},
    {"aten::unfold", unfold},
    {"aten::view.dtype", view_dtype},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> rearrange_rules() { return kRules; }

}  // namespace torch_pjrt::lower
