// Fourier transforms, one dim after the other.
#include <cmath>

#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

using hlo::Fourier;

// What eager divides by, for a transform of so many numbers: its modes of normalisation are none,
// by the root and by the number.
double divisor(const Call& c, double count) {
  const int64_t mode = c.integer("normalization");
  return mode == 0 ? 1 : mode == 1 ? std::sqrt(count) : count;
}

// The transform of one logical dim, which is made the innermost in memory.
Tensor transform(const Call& c, const Tensor& t, int64_t dim, Fourier kind, int64_t length) {
  Order order;
  for (int64_t d = 0; d < t.rank(); ++d) {
    if (d != dim) order.push_back(d);
  }
  order.push_back(dim);
  return {c.build().fft(c.reorder(t, order).value, kind, length), order};
}

// XLA divides an inverse transform by the number of its elements.
Results normalised(const Call& c, const Tensor& t, double count, bool is_inverse) {
  const double factor = (is_inverse ? count : 1) / divisor(c, count);
  if (factor == 1) return t;
  return c.emit(Op::kMultiply, {t, c.splat_like(t, factor)});
}

bool is_empty(const Call& c) { return c.result().num_elements() == 0; }

Results complex_to_complex(const Call& c) {
  Tensor t = c.any_order("self");
  if (is_empty(c)) return t;
  const bool forward = c.flag("forward");
  double count = 1;
  for (const int64_t dim : c.integers("dim")) {
    const int64_t length = t.dims()[dim];
    t = transform(c, t, dim, forward ? Fourier::kForward : Fourier::kInverse, length);
    count *= static_cast<double>(length);
  }
  return normalised(c, t, count, !forward);
}

Results real_to_complex(const Call& c) {
  const std::vector<int64_t> dims = c.integers("dim");
  if (is_empty(c)) return c.splat(0, c.result().dtype);
  Tensor t = c.any_order("self");
  const bool onesided = c.flag("onesided");
  if (!onesided) t = c.convert(t, c.result().dtype);
  double count = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    const bool first = onesided && k + 1 == dims.size();
    const int64_t length = t.dims()[dims[k]];
    t = transform(c, t, dims[k], first ? Fourier::kOfReal : Fourier::kForward, length);
    count *= static_cast<double>(length);
  }
  return normalised(c, t, count, false);
}

Results complex_to_real(const Call& c) {
  const std::vector<int64_t> dims = c.integers("dim");
  if (is_empty(c)) return c.splat(0, c.result().dtype);
  Tensor t = c.any_order("self");
  double count = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    const bool last = k + 1 == dims.size();
    const int64_t length = last ? c.integer("last_dim_size") : t.dims()[dims[k]];
    t = transform(c, t, dims[k], last ? Fourier::kToReal : Fourier::kInverse, length);
    count *= static_cast<double>(length);
  }
  return normalised(c, t, count, true);
}

constexpr Entry kRules[] = {
    {"aten::_fft_c2c", complex_to_complex},
    {"aten::_fft_c2r", complex_to_real},
    {"aten::_fft_r2c", real_to_complex},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> fourier_rules() { return kRules; }

}  // namespace torch_pjrt::lower
