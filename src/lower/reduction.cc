// Reductions over axes.
#include <algorithm>
#include <limits>

#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

// Reduces `t` over the op's `dim`, keeping the axes as 1 when `keepdim` says so.
Tensor reduce_dims(const Call& c, Op op, const Tensor& t, double init,
                   const std::vector<int64_t>& axes) {
  const Tensor r = c.reduce(op, t, init, axes);
  return c.flag("keepdim") && t.rank() > 0 ? c.keep_dims(r, axes) : r;
}

// The type in which sums accumulate: the result's, f32 for the 16-bit ones.
DType sum_dtype(const Call& c) { return opmath(c.result().dtype); }

Results sum(const Call& c) {
  const Tensor t = c.convert(c.any_order(0), sum_dtype(c));
  return reduce_dims(c, Op::kAdd, t, 0, c.axes("dim", t.rank()));
}

Results mean(const Call& c) {
  const Tensor t = c.convert(c.any_order(0), sum_dtype(c));
  const std::vector<int64_t> axes = c.axes("dim", t.rank());
  const Dims dims = t.dims();
  double count = 1;
  for (const int64_t a : axes) count *= static_cast<double>(dims[a]);
  const Tensor total = reduce_dims(c, Op::kAdd, t, 0, axes);
  return c.emit(Op::kDivide, {total, c.splat_like(total, count)});
}

template <Op op>
Results extreme(const Call& c) {
  const Tensor t = c.any_order(0);
  if (!is_floating(t.dtype()))
    c.unsupported("only floating-point inputs have a rule; convert with .float()");
  const double infinity = std::numeric_limits<double>::infinity();
  return reduce_dims(c, op, t, op == Op::kMaximum ? -infinity : infinity, c.axes("dim", t.rank()));
}

template <Op op>
Results truth(const Call& c) {
  const Tensor t = c.convert(c.any_order(0), DType::kBool);
  return reduce_dims(c, op, t, op == Op::kAnd ? 1 : 0,
                     t.rank() == 0 ? Dims{} : Dims{c.axis("dim", t.rank())});
}

template <Op op>
Results truth_dims(const Call& c) {
  const Tensor t = c.convert(c.any_order(0), DType::kBool);
  return reduce_dims(c, op, t, op == Op::kAnd ? 1 : 0, c.axes("dim", t.rank()));
}

template <Op op>
Results truth_all(const Call& c) {
  const Tensor t = c.convert(c.any_order(0), DType::kBool);
  return c.reduce(op, t, op == Op::kAnd ? 1 : 0, row_major(t.rank()));
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
    {"aten::mean.dim", mean},
    {"aten::sum.dim_IntList", sum},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> reduction_rules() { return kRules; }

}  // namespace torch_pjrt::lower
