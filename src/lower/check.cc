#include "lower/check.h"

namespace torch_pjrt::lower {
namespace {

// Everything row-major in one dim.
Tensor flat(const Call& c, const Tensor& t) { return c.reshape(t, {t.value.type.num_elements()}); }

Tensor number(const Call& c, int64_t value) {
  return c.wrap(c.build().constant(value, {DType::kI64, {}}));
}

}  // namespace

Tensor first_true(const Call& c, const Tensor& mask) {
  const Tensor m = flat(c, mask);
  const Type type{DType::kI64, m.dims()};
  const Tensor position = c.wrap(c.build().iota(0, type));
  const Tensor nowhere = c.wrap(c.build().constant(kNowhere, type));
  const Tensor bad = c.select(m, position, nowhere);
  return c.wrap(c.build().reduce(Op::kMinimum, bad.value, number(c, kNowhere).value, {0}));
}

Tensor element_at(const Call& c, const Tensor& t, const Tensor& position) {
  const std::vector<hlo::Value> start = {position.value};
  const hlo::Value element = c.build().dynamic_slice(flat(c, t).value, start, {1});
  return c.convert(c.wrap(c.build().reshape(element, {})), DType::kI64);
}

Tensor outside(const Call& c, const Tensor& t, int64_t low, int64_t high) {
  const Tensor i = c.convert(t, DType::kI64);
  const auto bound = [&](int64_t value) {
    return Tensor{c.build().constant(value, i.value.type), i.order};
  };
  return c.emit(Op::kOr, {c.compare(hlo::Direction::kLt, i, bound(low)),
                          c.compare(hlo::Direction::kGt, i, bound(high))});
}

std::vector<Failure> check_range(const Call& c, const Tensor& index, int64_t low, int64_t high,
                                 const Problem& problem) {
  if (index.value.type.num_elements() == 0) return {};
  const Tensor first = first_true(c, outside(c, index, low, high));
  const Tensor bad = c.compare(hlo::Direction::kNe, first, number(c, kNowhere));
  return {{bad, element_at(c, index, first), problem}};
}

std::vector<Failure> check_divisor(const Call& c, ArgKey divisor) {
  if (is_floating(c.compute_dtype()) || c.result().num_elements() == 0) return {};
  if (c.is_nonzero(divisor)) return {};
  const Tensor d = c.is_tensor(divisor) ? c.any_order(divisor) : c.scalar(divisor, DType::kI64);
  const Tensor zero = c.compare(hlo::Direction::kEq, d, c.splat_like(d, 0));
  const Tensor bad = c.reduce(Op::kOr, zero, 0, row_major(zero.rank()));
  return {{bad, number(c, 0), {Problem::Kind::kRuntimeError, "ZeroDivisionError"}}};
}

}  // namespace torch_pjrt::lower
