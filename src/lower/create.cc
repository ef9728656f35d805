// Tensors made from numbers.
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

Tensor filled(const Call& c, const Tensor& value) {
  return c.broadcast(c.convert(value, c.result().dtype), c.result().dims);
}

Results full(const Call& c) { return filled(c, c.scalar("fill_value", c.dtype("fill_value"))); }

Results fill(const Call& c) { return filled(c, c.scalar("value", c.dtype("value"))); }

Results scalar_tensor(const Call& c) { return filled(c, c.scalar("s", c.dtype("s"))); }

template <int value>
Results constant(const Call& c) {
  return c.wrap(c.build().constant(static_cast<double>(value), c.result()));
}

// start + k * step, computed in i64 or f64 as eager does.
Tensor ramp(const Call& c, const Tensor* start, const Tensor* step, DType dtype) {
  const Type type{dtype, c.result().dims};
  Tensor values = c.wrap(c.build().iota(0, type));
  if (step != nullptr) values = c.emit(Op::kMultiply, {values, c.broadcast(*step, type.dims)});
  if (start != nullptr) values = c.emit(Op::kAdd, {values, c.broadcast(*start, type.dims)});
  return c.convert(values, c.result().dtype);
}

DType ramp_dtype(const Call& c) {
  return is_floating(c.result().dtype) ? DType::kF64 : DType::kI64;
}

Results arange(const Call& c) { return ramp(c, nullptr, nullptr, ramp_dtype(c)); }

Results arange_start_step(const Call& c) {
  const DType dtype = ramp_dtype(c);
  const Tensor start = c.scalar("start", dtype);
  const Tensor step = c.scalar("step", dtype);
  return ramp(c, &start, &step, dtype);
}

// start + k * step in the result's integer type.
Results prims_iota(const Call& c) {
  const DType dtype = c.result().dtype;
  const Tensor start = c.scalar("start", dtype);
  const Tensor step = c.scalar("step", dtype);
  return ramp(c, &start, &step, dtype);
}

constexpr Entry kRules[] = {
    {"aten::arange", arange},
    {"aten::arange.start_step", arange_start_step},
    {"aten::empty.memory_format", constant<0>},
    {"aten::empty_permuted", constant<0>},
    {"aten::empty_strided", constant<0>},
    {"aten::fill.Scalar", fill},
    {"aten::full", full},
    {"aten::full_like", full},
    {"aten::new_empty_strided", constant<0>},
    {"aten::ones", constant<1>},
    {"aten::ones_like", constant<1>},
    {"aten::scalar_tensor", scalar_tensor},
    {"aten::zeros", constant<0>},
    {"aten::zeros_like", constant<0>},
    {"prims::iota", prims_iota, {{{"start", Role::kValue}, {"step", Role::kValue}}}},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> create_rules() { return kRules; }

}  // namespace torch_pjrt::lower
