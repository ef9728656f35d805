// Tensors as views of a storage: as_strided and its inverse, which AOTAutograd makes of inputs that
// overlap. A node has two arguments beside its schema's: where self lies in its storage. It may
// have a third, "place": the view's offset from self's first element as a value, with 0 for
// structure.
#include "lower/strided.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lower/positions.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

struct Place {
  Dims sizes;
  Dims strides;
  int64_t offset;  // from self's first element
};

struct View : Place {
  Tensor self;
  hlo::Value storage;  // rank 1: self's elements as they lie in memory
};

View view_of(const Call& c) {
  View v{{c.integers("size"), c.integers("stride"), 0}, c.any_order("self"), {}};
  const int64_t self_offset = c.integer("self_offset");
  v.offset = c.integer_or("storage_offset", self_offset) - self_offset;
  const std::optional<Order> order = dense_order(v.self.dims(), c.integers("self_stride"));
  if (!order) c.unsupported("the tensor has gaps in memory", "use .contiguous() first");
  v.self = c.reorder(v.self, *order);
  const int64_t size = v.self.value.type.num_elements();
  int64_t last = v.offset;
  for (size_t d = 0; d < v.sizes.size(); ++d) last += (v.sizes[d] - 1) * v.strides[d];
  const bool is_empty = std::ranges::find(v.sizes, 0) != v.sizes.end();
  if (!is_empty && (v.offset < 0 || last >= size)) {
    c.unsupported("the view reaches memory outside of its tensor");
  }
  v.storage = c.build().reshape(v.self.value, {size});
  return v;
}

int64_t num_elements(const Place& v) { return Type{DType::kBool, v.sizes}.num_elements(); }

// The storage, with some more elements at its end, as a tensor of which the view is a slice: one
// dim, or level, for each dim of the view that moves, by decreasing strides, and one for what lies
// between its elements.
struct Levels {
  Dims extents;
  Dims starts;
  Dims limits;
  Dims steps;
  Dims dims;  // of the view, that the levels stand for

  bool operator==(const Levels&) const = default;

  bool is_dense() const {
    return std::ranges::all_of(steps, [](int64_t s) { return s == 1; });
  }
  int64_t size() const { return Type{DType::kBool, extents}.num_elements(); }
};

// The greatest unit of which a step of `stride` is a multiple and `above` too, by self's strides.
int64_t unit_of(int64_t stride, int64_t above, const Dims& strides) {
  if (above % stride == 0) return stride;
  int64_t unit = 0;
  for (const int64_t s : strides) {
    if (s > unit && stride % s == 0 && above % s == 0) unit = s;
  }
  return unit;
}

// None where the view isn't such a slice. `size`: of the storage.
std::optional<Levels> levels_of(const Place& v, const Dims& self_strides, int64_t size) {
  const Order plain = row_major(static_cast<int64_t>(v.sizes.size()));
  if (dense_order(v.sizes, v.strides) == plain) {  // one run of memory
    return Levels{{size}, {v.offset}, {v.offset + num_elements(v)}, {1}, plain};
  }
  Levels levels;
  for (size_t d = 0; d < v.sizes.size(); ++d) {
    if (v.sizes[d] > 1 && v.strides[d] > 0) levels.dims.push_back(static_cast<int64_t>(d));
  }
  std::ranges::sort(levels.dims, {}, [&](int64_t d) { return std::pair(-v.strides[d], d); });
  int64_t above = 0;
  int64_t rest = v.offset;
  const auto add = [&](int64_t unit, int64_t count, int64_t step) {
    levels.extents.push_back(above == 0 ? (size + unit - 1) / unit : above / unit);
    levels.starts.push_back(rest / unit);
    levels.limits.push_back(rest / unit + (count - 1) * step + 1);
    levels.steps.push_back(step);
    above = unit;
    rest %= unit;
    return levels.limits.back() <= levels.extents.back();
  };
  for (const int64_t d : levels.dims) {
    const int64_t stride = v.strides[d];
    const int64_t unit = above == 0 ? stride : unit_of(stride, above, self_strides);
    if (unit == 0 || unit == above || !add(unit, v.sizes[d], stride / unit)) return std::nullopt;
  }
  if (above != 1 && !add(1, 1, 1)) return std::nullopt;
  return levels;
}

std::optional<Levels> levels_of(const Call& c, const View& v) {
  return levels_of(v, c.integers("self_stride"), v.storage.type.num_elements());
}

// Where the slice starts in each level: 0-d i64.
std::vector<hlo::Value> starts_of(const Call& c, const Levels& levels) {
  hlo::Builder& b = c.build();
  const Type type{DType::kI64, {}};
  std::vector<hlo::Value> starts;
  if (!c.has("place")) {
    for (const int64_t s : levels.starts) starts.push_back(b.constant(s, type));
    return starts;
  }
  hlo::Value rest = c.scalar("place", DType::kI64).value;
  int64_t unit = levels.size();
  for (const int64_t extent : levels.extents) {
    unit /= extent;
    const hlo::Value one = b.constant(unit, type);
    starts.push_back(b.elementwise(Op::kDivide, {rest, one}));
    rest = b.elementwise(Op::kRemainder, {rest, one});
  }
  return starts;
}

// The elements of the slice, of the storage by levels.
hlo::Value read_levels(const Call& c, const hlo::Value& storage, const Levels& levels) {
  hlo::Builder& b = c.build();
  if (!c.has("place")) return b.slice(storage, levels.starts, levels.limits, levels.steps);
  // It starts at 0 by its structure.
  const hlo::Value window = b.dynamic_slice(storage, starts_of(c, levels), levels.limits);
  return b.slice(window, Dims(levels.limits.size(), 0), levels.limits, levels.steps);
}

hlo::Value as_levels(const Call& c, const View& v, const Levels& levels) {
  hlo::Builder& b = c.build();
  const int64_t more = levels.size() - v.storage.type.num_elements();
  hlo::Value storage = v.storage;
  if (more > 0) {
    storage = b.pad(storage, b.constant(0, {storage.type.dtype, {}}), {0}, {more}, {0});
  }
  return b.reshape(storage, levels.extents);
}

// The view's dims in the order of the levels, then those that don't move.
Order order_of(const View& v, const Levels& levels) {
  Order order = levels.dims;
  for (size_t d = 0; d < v.sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (std::ranges::find(levels.dims, dim) == levels.dims.end()) order.push_back(dim);
  }
  return order;
}

// The position in the storage of each element of the view: i64[n,1].
hlo::Value positions(const Call& c, const View& v) {
  const Type type{DType::kI64, v.sizes};
  hlo::Value sum = c.build().constant(v.offset, type);
  for (size_t d = 0; d < v.sizes.size(); ++d) {
    const hlo::Value step = c.build().constant(v.strides[d], type);
    const hlo::Value i = c.build().iota(static_cast<int64_t>(d), type);
    sum = c.build().elementwise(Op::kAdd, {sum, c.build().elementwise(Op::kMultiply, {i, step})});
  }
  return c.build().reshape(sum, {num_elements(v), 1});
}

Results as_strided(const Call& c) {
  const View v = view_of(c);
  const int64_t n = num_elements(v);
  if (n == 0) return c.splat(0, c.result().dtype);
  if (const auto levels = levels_of(c, v)) {
    const hlo::Value part = read_levels(c, as_levels(c, v, *levels), *levels);
    Dims moving = v.sizes;
    for (size_t d = 0; d < moving.size(); ++d) {
      if (v.strides[d] == 0) moving[d] = 1;
    }
    const Order order = order_of(v, *levels);
    return c.broadcast({c.build().reshape(part, permute(moving, order)), order}, v.sizes);
  }
  hlo::Gather g;
  g.collapsed_slice_dims = g.start_index_map = {0};
  g.index_vector_dim = 1;
  g.slice_sizes = {1};
  return c.wrap(c.build().reshape(c.build().gather(v.storage, positions(c, v), g), v.sizes));
}

// Whether some elements of the storage are several of the view.
bool repeats(const Place& v) {
  for (size_t d = 0; d < v.sizes.size(); ++d) {
    if (v.sizes[d] > 1 && v.strides[d] == 0) return true;
  }
  return false;
}

// The storage with src where the view is.
hlo::Value write_levels(const Call& c, const View& v, const Levels& levels) {
  hlo::Builder& b = c.build();
  const hlo::Value old = as_levels(c, v, levels);
  const hlo::Value there = read_levels(c, old, levels);
  hlo::Value source = b.reshape(c.tensor("src", order_of(v, levels)).value, there.type.dims);
  if (const std::optional<Tensor> permit = c.write_permit()) {
    source = b.elementwise(Op::kSelect, {permit->value, source, there});
  }
  const hlo::Value written = b.dynamic_update_slice(old, source, starts_of(c, levels));
  const hlo::Value all = b.reshape(written, {levels.size()});
  return b.slice(all, {0}, {v.storage.type.num_elements()}, {1});
}

Results as_strided_scatter(const Call& c) {
  const View v = view_of(c);
  const int64_t n = num_elements(v);
  if (n == 0) return v.self;
  hlo::Value storage;
  const auto levels = levels_of(c, v);
  if (levels && levels->is_dense() && !repeats(v)) {
    storage = write_levels(c, v, *levels);
  } else {
    const hlo::Value source = c.build().reshape(c.tensor("src").value, {n});
    hlo::Scatter s;
    s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
    s.index_vector_dim = 1;
    const auto replace = [](std::span<const hlo::Value> values) {
      return std::vector<hlo::Value>{values[1]};
    };
    storage = c.build().scatter(v.storage, permitted(c, positions(c, v)), source, s, replace);
  }
  return Tensor{c.build().reshape(storage, v.self.value.type.dims), v.self.order};
}

constexpr Entry kRules[] = {
    {"aten::as_strided", as_strided, {{{"place", Role::kValue}}}},
    {"aten::as_strided_scatter", as_strided_scatter, {{{"place", Role::kValue}}}},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> strided_rules() { return kRules; }

bool is_window(const Dims& self_dims, const Dims& self_strides, const Dims& sizes,
               const Dims& strides, int64_t offset) {
  if (!dense_order(self_dims, self_strides)) return false;
  if (std::ranges::find(sizes, 0) != sizes.end()) return false;
  const int64_t size = Type{DType::kBool, self_dims}.num_elements();
  const auto at_begin = levels_of(Place{sizes, strides, 0}, self_strides, size);
  auto here = levels_of(Place{sizes, strides, offset}, self_strides, size);
  if (!at_begin || !here || !here->is_dense() || repeats({sizes, strides, 0})) return false;
  for (size_t k = 0; k < here->starts.size(); ++k) {
    here->limits[k] -= here->starts[k];
    here->starts[k] = 0;
  }
  return here == at_begin;
}

}  // namespace torch_pjrt::lower
