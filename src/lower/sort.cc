// Sorting along an axis, and what is read off a sorted tensor. NaN counts as the largest number.
#include "lower/extreme.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

struct Sorted {
  Tensor values, indices;
};

// Equal elements keep their order.
Sorted sorted_along(const Call& c, const Tensor& t, int64_t axis, bool descending) {
  hlo::Builder& b = c.build();
  const int64_t at = inverse(t.order)[axis];
  const hlo::Value operands[] = {t.value, b.iota(at, {DType::kI64, t.value.type.dims})};
  const auto comes_first = [&](std::span<const hlo::Value> v) -> std::vector<hlo::Value> {
    return {descending ? is_beyond(b, Op::kMaximum, v[0], v[1])
                       : is_beyond(b, Op::kMaximum, v[1], v[0])};
  };
  const std::vector<hlo::Value> r = b.sort(operands, at, true, comes_first);
  return {{r[0], t.order}, {r[1], t.order}};
}

Results sort(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.rank() == 0) return {t, c.splat(0, DType::kI64)};
  const Sorted s = sorted_along(c, t, c.axis("dim", t.rank()), c.flag("descending"));
  return {s.values, s.indices};
}

Results topk(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.rank() == 0) return {t, c.splat(0, DType::kI64)};
  const int64_t axis = c.axis("dim", t.rank());
  const Sorted s = sorted_along(c, t, axis, c.flag("largest"));
  Dims limit = t.value.type.dims;
  limit[inverse(t.order)[axis]] = c.integer("k");
  const Dims start(limit.size(), 0);
  const Dims steps(limit.size(), 1);
  const auto first = [&](const Tensor& x) {
    return Tensor{c.build().slice(x.value, start, limit, steps), x.order};
  };
  return {first(s.values), first(s.indices)};
}

// The element at `position` (i64, of t's dims without `axis`) along `axis`.
Tensor at_position(const Call& c, const Tensor& t, const Tensor& position, int64_t axis) {
  const Tensor spread = c.reorder(c.broadcast(c.keep_dims(position, {axis}), t.dims()), t.order);
  const Tensor index{c.build().iota(inverse(t.order)[axis], spread.value.type), t.order};
  const Tensor here = c.compare(hlo::Direction::kEq, index, spread);
  return c.reduce(Op::kAdd, c.select(here, t, c.splat_like(t, 0)), 0, {axis});
}

Sorted pick(const Call& c, const Sorted& s, const Tensor& position, int64_t axis) {
  return {at_position(c, s.values, position, axis), at_position(c, s.indices, position, axis)};
}

Results kept(const Call& c, const Sorted& s, int64_t axis) {
  if (!c.flag("keepdim")) return {s.values, s.indices};
  return {c.keep_dims(s.values, {axis}), c.keep_dims(s.indices, {axis})};
}

Results kthvalue(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.rank() == 0) return {t, c.splat(0, DType::kI64)};
  const int64_t axis = c.axis("dim", t.rank());
  const Sorted s = sorted_along(c, t, axis, false);
  const Tensor shape = c.reduce(Op::kAdd, s.indices, 0, {axis});
  return kept(c, pick(c, s, c.splat_like(shape, static_cast<double>(c.integer("k") - 1)), axis),
              axis);
}

// The lower one of the two in the middle. A NaN among the elements is the median, unless NaN is
// left out; then only the numbers count.
template <bool without_nan>
Sorted median_along(const Call& c, const Tensor& t, int64_t axis) {
  const Sorted s = sorted_along(c, t, axis, false);
  const Tensor is_number = c.compare(hlo::Direction::kEq, s.values, s.values);
  const Tensor numbers = c.reduce(Op::kAdd, c.convert(is_number, DType::kI64), 0, {axis});
  const auto middle = [&](const Tensor& count) {
    const Tensor before = c.emit(Op::kSubtract, {count, c.splat_like(count, 1)});
    const Tensor least = c.emit(Op::kMaximum, {before, c.splat_like(count, 0)});
    return c.emit(Op::kDivide, {least, c.splat_like(count, 2)});
  };
  if (without_nan) return pick(c, s, middle(numbers), axis);
  const Tensor all = c.splat_like(numbers, static_cast<double>(t.dims()[axis]));
  const Tensor complete = c.compare(hlo::Direction::kEq, numbers, all);
  return pick(c, s, c.select(complete, middle(all), numbers), axis);
}

template <bool without_nan>
Results median(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.rank() == 0) return {t, c.splat(0, DType::kI64)};
  const int64_t axis = c.axis("dim", t.rank());
  return kept(c, median_along<without_nan>(c, t, axis), axis);
}

template <bool without_nan>
Results median_all(const Call& c) {
  const Tensor t = c.any_order(0);
  const Tensor flat = c.reshape(t, {t.value.type.num_elements()});
  return median_along<without_nan>(c, flat, 0).values;
}

constexpr Entry kRules[] = {
    {"aten::kthvalue", kthvalue},          {"aten::median", median_all<false>},
    {"aten::median.dim", median<false>},   {"aten::nanmedian", median_all<true>},
    {"aten::nanmedian.dim", median<true>}, {"aten::sort", sort},
    {"aten::sort.stable", sort},           {"aten::topk", topk},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> sort_rules() { return kRules; }

}  // namespace torch_pjrt::lower
