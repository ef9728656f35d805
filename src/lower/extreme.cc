// Maxima and minima of every dtype.
#include "lower/extreme.h"

#include <limits>

namespace torch_pjrt::lower {
namespace {

// So many elements are left to a reduction.
constexpr int64_t kFew = 8;

}  // namespace

hlo::Value neutral(const Call& c, Op op, DType dtype) {
  const bool is_max = op == Op::kMaximum;
  const Type type{dtype, {}};
  if (is_floating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return c.build().constant(is_max ? -infinity : infinity, type);
  }
  if (dtype == DType::kBool) return c.build().constant(is_max ? 0 : 1, type);
  if (dtype == DType::kU8) return c.build().constant(is_max ? 0 : 255, type);
  const int64_t greatest = std::numeric_limits<int64_t>::max() >> (64 - bit_width(dtype));
  return c.build().constant(is_max ? -greatest - 1 : greatest, type);
}

hlo::Value extreme_of(hlo::Builder& b, const Options& options, Op op, const hlo::Value& x,
                      const hlo::Value& y) {
  if (options.platform != "cpu" || !is_floating(x.type.dtype)) return b.elementwise(op, {x, y});
  // NaN compares false, so that of `x` stays.
  const auto inside = op == Op::kMaximum ? hlo::Direction::kLt : hlo::Direction::kGt;
  const hlo::Value beyond = b.elementwise(Op::kSelect, {b.compare(inside, x, y), y, x});
  return b.elementwise(Op::kSelect, {b.compare(hlo::Direction::kNe, y, y), y, beyond});
}

Tensor extreme_of(const Call& c, Op op, const Tensor& x, const Tensor& y) {
  return {extreme_of(c.build(), c.options(), op, x.value, y.value), x.order};
}

Tensor reduce_extreme(const Call& c, Op op, const Tensor& t, const std::vector<int64_t>& axes) {
  return c.reduce(op, t, neutral(c, op, t.dtype()), axes);
}

hlo::Value fewer(hlo::Builder& b, const Options& options, Op op, hlo::Value v, int64_t position) {
  while (v.type.dims[position] > kFew) {
    const int64_t size = v.type.dims[position];
    const int64_t half = (size + 1) / 2;
    Dims start(v.type.dims.size(), 0);
    Dims limit = v.type.dims;
    const Dims steps(limit.size(), 1);
    limit[position] = half;
    const hlo::Value first = b.slice(v, start, limit, steps);
    // Of an odd number the one in the middle is in both.
    start[position] = size - half;
    limit[position] = size;
    v = extreme_of(b, options, op, first, b.slice(v, start, limit, steps));
  }
  return v;
}

hlo::Value is_beyond(hlo::Builder& b, Op op, const hlo::Value& x, const hlo::Value& y) {
  hlo::Value beyond =
      b.compare(op == Op::kMaximum ? hlo::Direction::kGt : hlo::Direction::kLt, x, y);
  if (!is_floating(x.type.dtype)) return beyond;
  const hlo::Value nan = b.compare(hlo::Direction::kNe, x, x);
  const hlo::Value number = b.compare(hlo::Direction::kEq, y, y);
  return b.elementwise(Op::kOr, {beyond, b.elementwise(Op::kAnd, {nan, number})});
}

hlo::Region keep_beyond(hlo::Builder& b, Op op) {
  return [&b, op](std::span<const hlo::Value> v) -> std::vector<hlo::Value> {
    const hlo::Value level = b.elementwise(Op::kNot, {is_beyond(b, op, v[2], v[0])});
    const hlo::Value earlier = b.compare(hlo::Direction::kLt, v[1], v[3]);
    const hlo::Value first = b.elementwise(
        Op::kOr, {is_beyond(b, op, v[0], v[2]), b.elementwise(Op::kAnd, {level, earlier})});
    return {b.elementwise(Op::kSelect, {first, v[0], v[2]}),
            b.elementwise(Op::kSelect, {first, v[1], v[3]})};
  };
}

Extreme first_extreme(const Call& c, Op op, const Tensor& t, int64_t axis) {
  hlo::Builder& b = c.build();
  const int64_t position = inverse(t.order)[axis];
  const hlo::Value index = b.iota(position, {DType::kI64, t.value.type.dims});
  const hlo::Value values[] = {t.value, index};
  const hlo::Value inits[] = {neutral(c, op, t.dtype()),
                              b.constant(std::numeric_limits<int64_t>::max(), {DType::kI64, {}})};
  const std::vector<hlo::Value> r = b.reduce(values, inits, {position}, keep_beyond(b, op));
  const Order order = without(t.order, {axis});
  return {{r[0], order}, {r[1], order}};
}

}  // namespace torch_pjrt::lower
