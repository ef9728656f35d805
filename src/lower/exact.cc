#include "lower/exact.h"

namespace torch_pjrt::lower {
// a * b - 0 is a * b in the fused form, too. A zero that the compiler knew would be dropped.
Tensor exact_product(const Call& c, const Tensor& a, const Tensor& b) {
  Tensor product = c.emit(Op::kMultiply, {a, b});
  const DType dtype = product.dtype();
  const bool is_wide = dtype == DType::kF32 || dtype == DType::kF64;
  const bool is_final = dtype == c.result().dtype;  // not rounded to a narrower dtype anyhow
  if (c.options().platform != "cpu" || !is_wide || !is_final) return product;
  const hlo::Value zero = c.build().zero_at_run_time(dtype);
  const Tensor zeros{c.build().broadcast(zero, product.value.type.dims, {}), product.order};
  return c.emit(Op::kSubtract, {product, zeros});
}

}  // namespace torch_pjrt::lower
