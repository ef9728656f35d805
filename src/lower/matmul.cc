// Matrix products. A transposed operand is contracted where it lies: nothing is moved.
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

// a[.., m, k] times b[.., k, n], with `batch` leading dims of the same sizes.
Tensor product(const Call& c, const Tensor& a, const Tensor& b, int64_t batch, DType dtype) {
  const Order in_a = inverse(a.order);
  const Order in_b = inverse(b.order);
  std::vector<int64_t> batch_a;
  std::vector<int64_t> batch_b;
  for (int64_t d = 0; d < batch; ++d) {
    batch_a.push_back(in_a[d]);
    batch_b.push_back(in_b[d]);
  }
  return c.wrap(c.build().dot_general(a.value, b.value, batch_a, batch_b, {in_a[batch + 1]},
                                      {in_b[batch]}, dtype));
}

template <int batch>
Results matmul(const Call& c) {
  const DType dtype = opmath(c.result().dtype);
  return product(c, c.any_order(0), c.any_order(1), batch, dtype);
}

Results addmm(const Call& c) {
  const DType dtype = opmath(c.result().dtype);
  Tensor result = product(c, c.any_order("mat1"), c.any_order("mat2"), 0, dtype);
  const auto scaled = [&](const Tensor& t, const char* factor) {
    return c.emit(Op::kMultiply, {t, c.broadcast(c.scalar(factor, dtype), c.result().dims)});
  };
  if (c.scalar_class("alpha") != ScalarClass::kOne) result = scaled(result, "alpha");
  if (c.scalar_class("beta") == ScalarClass::kZero)
    return result;  // then self is not read: NaN there counts for nothing
  Tensor self = c.row_major(c.broadcast(c.convert(c.any_order(0), dtype), c.result().dims));
  if (c.scalar_class("beta") != ScalarClass::kOne) self = scaled(self, "beta");
  return c.emit(Op::kAdd, {self, result});
}

constexpr Entry kRules[] = {
    {"aten::addmm", addmm},
    {"aten::bmm", matmul<1>},
    {"aten::mm", matmul<0>},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> matmul_rules() { return kRules; }

}  // namespace torch_pjrt::lower
