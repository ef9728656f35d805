// Running sums, products and extremes along an axis.
#include <functional>
#include <limits>

#include "lower/extreme.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

using Values = std::vector<hlo::Value>;
// The combination of the values at earlier positions with those at later ones, elementwise.
using Combine = std::function<Values(const Values& earlier, const Values& later)>;

// Inclusive scan along the physical dim `at` by doubling: log2(size) steps, each of which combines
// every position with the one `step` before it. Before the first position stands `neutral`.
Values scan(hlo::Builder& b, Values values, const Values& neutral, int64_t at,
            const Combine& combine) {
  const Dims dims = values[0].type.dims;
  const Dims zeros(dims.size(), 0);
  for (int64_t step = 1; step < dims[at]; step *= 2) {
    Dims low = zeros;
    Dims high = zeros;
    low[at] = step;
    high[at] = -step;
    Values earlier;
    for (size_t k = 0; k < values.size(); ++k)
      earlier.push_back(b.pad(values[k], neutral[k], low, high, zeros));
    values = combine(earlier, values);
  }
  return values;
}

// f32 sums and products accumulate in f64, as eager's do.
DType accumulator(DType result) { return result == DType::kF32 ? DType::kF64 : opmath(result); }

template <Op op>
Results cumulate(const Call& c) {
  const DType dtype = accumulator(c.result().dtype);
  const Tensor t = c.convert(c.convert(c.any_order(0), c.result().dtype), dtype);
  if (t.rank() == 0) return c.convert(t, c.result().dtype);
  hlo::Builder& b = c.build();
  const Values neutral = {b.constant(op == Op::kAdd ? 0 : 1, {dtype, {}})};
  const Values r = scan(b, {t.value}, neutral, inverse(t.order)[c.axis("dim", t.rank())],
                        [&b](const Values& earlier, const Values& later) {
                          return Values{b.elementwise(op, {earlier[0], later[0]})};
                        });
  return c.convert({r[0], t.order}, c.result().dtype);
}

// log(exp(a) + exp(b)): infinities of one sign stay, and NaN.
hlo::Value log_of_sum(hlo::Builder& b, const hlo::Value& x, const hlo::Value& y) {
  const hlo::Value high = b.elementwise(Op::kMaximum, {x, y});
  const hlo::Value low = b.elementwise(Op::kMinimum, {x, y});
  const hlo::Value ratio =
      b.elementwise(Op::kExponential, {b.elementwise(Op::kSubtract, {low, high})});
  const hlo::Value sum = b.elementwise(Op::kAdd, {high, b.elementwise(Op::kLogPlusOne, {ratio})});
  const hlo::Value infinite = b.constant(std::numeric_limits<double>::infinity(), x.type);
  const hlo::Value is_infinite =
      b.compare(hlo::Direction::kEq, b.elementwise(Op::kAbs, {high}), infinite);
  return b.elementwise(Op::kSelect, {is_infinite, high, sum});
}

Results logcumsumexp(const Call& c) {
  const DType dtype = accumulator(c.result().dtype);
  if (is_complex(dtype)) c.unsupported("complex numbers");
  const Tensor t = c.convert(c.any_order(0), dtype);
  if (t.rank() == 0) return c.convert(t, c.result().dtype);
  hlo::Builder& b = c.build();
  const Values neutral = {b.constant(-std::numeric_limits<double>::infinity(), {dtype, {}})};
  const Values r = scan(b, {t.value}, neutral, inverse(t.order)[c.axis("dim", t.rank())],
                        [&b](const Values& earlier, const Values& later) {
                          return Values{log_of_sum(b, earlier[0], later[0])};
                        });
  return c.convert({r[0], t.order}, c.result().dtype);
}

// Running extremes and the last index at which each stands: from a NaN on, that of the last NaN.
template <Op op>
Results cumulate_extreme(const Call& c) {
  const Tensor t = c.any_order(0);
  if (t.rank() == 0) return {t, c.splat(0, DType::kI64)};
  hlo::Builder& b = c.build();
  const int64_t at = inverse(t.order)[c.axis("dim", t.rank())];
  const hlo::Value index = b.iota(at, {DType::kI64, t.value.type.dims});
  const Values neutral_pair = {neutral(c, op, t.dtype()), b.constant(-1, {DType::kI64, {}})};
  const auto combine = [&](const Values& earlier, const Values& later) {
    const hlo::Value first = is_beyond(b, op, earlier[0], later[0]);
    return Values{b.elementwise(Op::kSelect, {first, earlier[0], later[0]}),
                  b.elementwise(Op::kSelect, {first, earlier[1], later[1]})};
  };
  const Values r = scan(b, {t.value, index}, neutral_pair, at, combine);
  return {Tensor{r[0], t.order}, Tensor{r[1], t.order}};
}

constexpr Entry kRules[] = {
    {"aten::cummax", cumulate_extreme<Op::kMaximum>},
    {"aten::cummin", cumulate_extreme<Op::kMinimum>},
    {"aten::cumprod", cumulate<Op::kMultiply>},
    {"aten::cumsum", cumulate<Op::kAdd>},
    {"aten::logcumsumexp", logcumsumexp},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> scan_rules() { return kRules; }

}  // namespace torch_pjrt::lower
