// Reductions over axes.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "lower/extreme.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

// `r`, reduced over `axes` of a tensor of rank `rank`, with these as 1 where the op's keepdim says
// so.
Tensor kept(const Call& c, const Tensor& r, int64_t rank, const std::vector<int64_t>& axes) {
  return c.flag("keepdim") && rank > 0 ? c.keep_dims(r, axes) : r;
}

// The one axis of the op's `dim`; none for a 0-d tensor.
std::vector<int64_t> one_axis(const Call& c, int64_t rank) {
  return rank == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{c.axis("dim", rank)};
}

double elements(const Tensor& t, const std::vector<int64_t>& axes) {
  const Dims dims = t.dims();
  double count = 1;
  for (const int64_t a : axes) count *= static_cast<double>(dims[a]);
  return count;
}

// The operand in the type in which sums accumulate: the result's, f32 for the 16-bit ones.
Tensor summand(const Call& c) { return c.convert(c.any_order(0), opmath(c.result().dtype)); }

Results sum(const Call& c) {
  const Tensor t = summand(c);
  const std::vector<int64_t> axes = c.axes("dim", t.rank());
  return kept(c, c.sum(t, axes), t.rank(), axes);
}

Tensor mean_of(const Call& c, const Tensor& t, const std::vector<int64_t>& axes) {
  const Tensor total = c.sum(t, axes);
  return c.emit(Op::kDivide, {total, c.splat_like(total, elements(t, axes))});
}

Results mean(const Call& c) {
  const Tensor t = summand(c);
  const std::vector<int64_t> axes = c.axes("dim", t.rank());
  return kept(c, mean_of(c, t, axes), t.rank(), axes);
}

Results mean_all(const Call& c) {
  const Tensor t = summand(c);
  return mean_of(c, t, row_major(t.rank()));
}

Results product_all(const Call& c) {
  const Tensor t = summand(c);
  return c.reduce(Op::kMultiply, t, 1, row_major(t.rank()));
}

Results product(const Call& c) {
  const Tensor t = summand(c);
  const std::vector<int64_t> axes = one_axis(c, t.rank());
  return kept(c, c.reduce(Op::kMultiply, t, 1, axes), t.rank(), axes);
}

struct Moments {
  Tensor variance, mean;  // without `axes`
};

// In two passes; the divisor is the number of elements less the op's correction, at least 0.
Moments moments(const Call& c) {
  const Tensor t = summand(c);
  const std::vector<int64_t> axes = c.axes("dim", t.rank());
  const Tensor mean = mean_of(c, t, axes);
  const Tensor spread = c.reorder(c.broadcast(c.keep_dims(mean, axes), t.dims()), t.order);
  const Tensor centred = c.emit(Op::kSubtract, {t, spread});
  const Tensor total = c.sum(c.emit(Op::kMultiply, {centred, centred}), axes);
  const Tensor count = c.wrap(c.build().constant(elements(t, axes), {t.dtype(), {}}));
  const Tensor correction =
      c.is_none("correction") ? c.splat_like(count, 1) : c.scalar("correction", t.dtype());
  const Tensor divisor =
      c.emit(Op::kMaximum, {c.emit(Op::kSubtract, {count, correction}), c.splat_like(count, 0)});
  const Tensor divisors = c.reorder(c.broadcast(divisor, total.dims()), total.order);
  return {kept(c, c.emit(Op::kDivide, {total, divisors}), t.rank(), axes),
          kept(c, mean, t.rank(), axes)};
}

Results variance(const Call& c) { return moments(c).variance; }

Results variance_and_mean(const Call& c) {
  const Moments m = moments(c);
  return {m.variance, m.mean};
}

template <Op op>
Results extreme(const Call& c) {
  const Tensor t = c.any_order(0);
  const std::vector<int64_t> axes = c.axes("dim", t.rank());
  return kept(c, reduce_extreme(c, op, t, axes), t.rank(), axes);
}

template <Op op>
Results extreme_all(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.value.type.num_elements() == 0)
    fail(Code::kInvalid, c.op(), ": the tensor ", to_string(Type{t.dtype(), t.dims()}),
         " has no elements; give a dim that has some");
  return reduce_extreme(c, op, t, row_major(t.rank()));
}

// The extreme and the first index at which it stands.
template <Op op>
Results extreme_with_index(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.rank() == 0) return {t, c.splat(0, DType::kI64)};
  const int64_t axis = c.axis("dim", t.rank());
  const Extreme e = first_extreme(c, op, t, axis);
  return {kept(c, e.value, t.rank(), {axis}), kept(c, e.index, t.rank(), {axis})};
}

// The index alone; without a dim, that in the flattened tensor.
template <Op op>
Results index_of_extreme(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.rank() == 0) return c.splat(0, DType::kI64);
  if (!c.is_none("dim")) {
    const int64_t axis = c.axis("dim", t.rank());
    return kept(c, first_extreme(c, op, t, axis).index, t.rank(), {axis});
  }
  const Tensor flat = c.reshape(t, {t.value.type.num_elements()});
  return c.reshape(first_extreme(c, op, flat, 0).index, c.result().dims);
}

// In bool, given as bool or, for uint8 alone, as uint8.
template <Op op>
Tensor truth_over(const Call& c, const std::vector<int64_t>& axes) {
  const Tensor t = c.convert(c.any_order(0), DType::kBool);
  return c.convert(c.reduce(op, t, op == Op::kAnd ? 1 : 0, axes), c.result().dtype);
}

template <Op op>
Results truth(const Call& c) {
  const int64_t rank = c.any_order(0).rank();
  const std::vector<int64_t> axes = one_axis(c, rank);
  return kept(c, truth_over<op>(c, axes), rank, axes);
}

template <Op op>
Results truth_dims(const Call& c) {
  const int64_t rank = c.any_order(0).rank();
  // Here an empty list, unlike None, reduces nothing.
  const bool nothing = !c.is_none("dim") && c.integers("dim").empty();
  const std::vector<int64_t> axes = nothing ? std::vector<int64_t>{} : c.axes("dim", rank);
  return kept(c, truth_over<op>(c, axes), rank, axes);
}

template <Op op>
Results truth_all(const Call& c) {
  return truth_over<op>(c, row_major(c.any_order(0).rank()));
}

// (sum |x|**ord)**(1/ord), with its limits at 0, infinity and minus infinity.
Results vector_norm(const Call& c) {
  const Tensor x = summand(c);
  const std::vector<int64_t> axes = c.axes("dim", x.rank());
  const double ord = c.number("ord");
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor size = c.emit(Op::kAbs, {x});
  const auto sum_of = [&](const Tensor& t) { return c.sum(t, axes); };
  const auto norm = [&]() -> Tensor {
    if (ord == infinity) return c.reduce(Op::kMaximum, size, 0, axes);
    if (ord == -infinity) return c.reduce(Op::kMinimum, size, infinity, axes);
    if (ord == 0)
      return sum_of(c.convert(c.compare(hlo::Direction::kNe, x, c.splat_like(x, 0)), x.dtype()));
    if (ord == 1) return sum_of(size);
    if (ord == 2) return c.emit(Op::kSqrt, {sum_of(c.emit(Op::kMultiply, {x, x}))});
    const Tensor total = sum_of(c.emit(Op::kPower, {size, c.splat_like(size, ord)}));
    return c.emit(Op::kPower, {total, c.splat_like(total, 1 / ord)});
  };
  return kept(c, norm(), x.rank(), axes);
}

constexpr Entry kRules[] = {
    {"aten::all", truth_all<Op::kAnd>},
    {"aten::all.dim", truth<Op::kAnd>},
    {"aten::all.dims", truth_dims<Op::kAnd>},
    {"aten::amax", extreme<Op::kMaximum>},
    {"aten::amin", extreme<Op::kMinimum>},
    {"aten::any", truth_all<Op::kOr>},
    {"aten::any.dim", truth<Op::kOr>},
    {"aten::any.dims", truth_dims<Op::kOr>},
    {"aten::argmax", index_of_extreme<Op::kMaximum>},
    {"aten::argmin", index_of_extreme<Op::kMinimum>},
    {"aten::linalg_vector_norm", vector_norm, {{{"ord", Role::kStructure}}}},
    {"aten::max", extreme_all<Op::kMaximum>},
    {"aten::max.dim", extreme_with_index<Op::kMaximum>},
    {"aten::mean", mean_all},
    {"aten::mean.dim", mean},
    {"aten::min", extreme_all<Op::kMinimum>},
    {"aten::min.dim", extreme_with_index<Op::kMinimum>},
    {"aten::prod", product_all},
    {"aten::prod.dim_int", product},
    {"aten::sum.dim_IntList", sum},
    {"aten::var.correction", variance},
    {"aten::var_mean.correction", variance_and_mean},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> reduction_rules() { return kRules; }

}  // namespace torch_pjrt::lower
