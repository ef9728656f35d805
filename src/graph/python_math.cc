#include "graph/python_math.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace torch_pjrt::python_math {
namespace {

[[noreturn]] void overflow(const char* operation) {
  fail(Code::kInvalid, "a size expression (", operation,
       ") doesn't fit in 64 bits; use smaller sizes");
}

[[noreturn]] void division_by_zero() { fail(Code::kInvalid, "a size expression divides by zero"); }

void check_shift(int64_t count) {
  if (count < 0) fail(Code::kInvalid, "a size expression shifts by the negative count ", count);
}

void check_logarithm(double v) {
  if (v <= 0) fail(Code::kInvalid, "a size expression takes the logarithm of ", v);
}

}  // namespace

int64_t add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) overflow("a sum");
  return r;
}

int64_t mul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) overflow("a product");
  return r;
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) division_by_zero();
  if (b == -1) return mul(a, -1);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t ceil_div(int64_t a, int64_t b) {
  if (b == 0) division_by_zero();
  if (b == -1) return mul(a, -1);
  return a / b + (a % b != 0 && (a < 0) == (b < 0));
}

int64_t mod(int64_t a, int64_t b) {
  if (b == 0) division_by_zero();
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t r = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) r = mul(r, base);
    if (exponent > 1) base = mul(base, base);
  }
  return r;
}

int64_t shift_left(int64_t a, int64_t count) {
  check_shift(count);
  if (a == 0) return 0;
  if (count > 63) overflow("a shift");
  const auto r = static_cast<int64_t>(static_cast<uint64_t>(a) << count);
  if (r >> count != a) overflow("a shift");
  return r;
}

int64_t shift_right(int64_t a, int64_t count) {
  check_shift(count);
  return a >> std::min<int64_t>(count, 63);
}

double divide(double a, double b) {
  if (b == 0) division_by_zero();
  return a / b;
}

double floor_div(double a, double b) {
  if (b == 0) division_by_zero();
  // Not the floor of a / b, which may round up to a whole number.
  const double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  return q == 0 ? std::copysign(0.0, a / b) : std::nearbyint(q);
}

double mod(double a, double b) {
  if (b == 0) division_by_zero();
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

double power(double base, double exponent) {
  if (base == 0 && exponent < 0) division_by_zero();
  if (base < 0 && std::isfinite(exponent) && exponent != std::floor(exponent)) {
    fail(Code::kInvalid, "a size expression raises ", base, " to the power ", exponent,
         ", which is no real number");
  }
  return std::pow(base, exponent);
}

double square_root(double v) {
  if (v < 0) fail(Code::kInvalid, "a size expression takes the square root of ", v);
  return std::sqrt(v);
}

double exponential(double v) {
  const double r = std::exp(v);
  if (std::isinf(r) && std::isfinite(v))
    fail(Code::kInvalid, "a size expression takes the exponential of ", v, ", which is too large");
  return r;
}

double logarithm(double v) {
  check_logarithm(v);
  return std::log(v);
}

double logarithm_2(double v) {
  check_logarithm(v);
  return std::log2(v);
}

int64_t to_int(double v) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (std::isnan(v)) fail(Code::kInvalid, "a size expression makes an int of NaN");
  if (v < -kLimit || v >= kLimit) overflow("an int of a float");
  return static_cast<int64_t>(v);
}

}  // namespace torch_pjrt::python_math
