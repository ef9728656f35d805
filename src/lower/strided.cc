// Tensors as views of a storage: as_strided and its inverse, which AOTAutograd makes of inputs that
// overlap. A node has two arguments beside its schema's: where self lies in its storage.
#include <algorithm>

#include "lower/positions.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

struct View {
  Tensor self;
  hlo::Value storage;  // rank 1: self's elements as they lie in memory
  Dims sizes;
  Dims strides;
  int64_t offset;  // from self's first element
};

View view_of(const Call& c) {
  View v{c.any_order("self"), {}, c.integers("size"), c.integers("stride"), 0};
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

// The view is one run of memory.
bool is_run(const View& v) {
  return dense_order(v.sizes, v.strides) == row_major(static_cast<int64_t>(v.sizes.size()));
}

int64_t num_elements(const View& v) { return Type{DType::kBool, v.sizes}.num_elements(); }

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
  if (is_run(v)) {
    const hlo::Value run = c.build().slice(v.storage, {v.offset}, {v.offset + n}, {1});
    return c.wrap(c.build().reshape(run, v.sizes));
  }
  hlo::Gather g;
  g.collapsed_slice_dims = g.start_index_map = {0};
  g.index_vector_dim = 1;
  g.slice_sizes = {1};
  return c.wrap(c.build().reshape(c.build().gather(v.storage, positions(c, v), g), v.sizes));
}

Results as_strided_scatter(const Call& c) {
  const View v = view_of(c);
  const int64_t n = num_elements(v);
  if (n == 0) return v.self;
  const hlo::Value source = c.build().reshape(c.tensor("src").value, {n});
  hlo::Value storage;
  if (is_run(v)) {
    const hlo::Value old = c.build().slice(v.storage, {v.offset}, {v.offset + n}, {1});
    const std::optional<Tensor> permit = c.write_permit();
    const hlo::Value run =
        permit ? c.build().elementwise(Op::kSelect, {permit->value, source, old}) : source;
    const std::vector<hlo::Value> start = {c.build().constant(v.offset, {DType::kI64, {}})};
    storage = c.build().dynamic_update_slice(v.storage, run, start);
  } else {
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
    {"aten::as_strided", as_strided},
    {"aten::as_strided_scatter", as_strided_scatter},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> strided_rules() { return kRules; }

}  // namespace torch_pjrt::lower
