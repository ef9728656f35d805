#include "hlo/literal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/error.h"

namespace torch_pjrt::hlo {
namespace {

struct Format {
  int precision;     // bits of the significand, with the hidden one
  int min_exponent;  // of the least normal number
  int width;         // in bits
};

Format format(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {11, -14, 16};
    case DType::kBF16:
      return {8, -126, 16};
    case DType::kF32:
      return {24, -126, 32};
    default:
      return {53, -1022, 64};
  }
}

// Rounded to nearest, ties to even. A long double holds every double and every int64_t.
double round_to(long double value, const Format& f) {
  if (value == 0 || !std::isfinite(value)) return static_cast<double>(value);
  const int exponent = std::max(std::ilogb(value), f.min_exponent);
  const int quantum = exponent - (f.precision - 1);
  const long double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
  const int max_exponent = 1 - f.min_exponent;
  if (std::ilogb(rounded) > max_exponent) {
    return std::copysign(std::numeric_limits<double>::infinity(), static_cast<double>(value));
  }
  return static_cast<double>(rounded);
}

std::string bits(double value, const Format& f) {
  const int exponent_bits = f.width - f.precision;
  uint64_t pattern = ((uint64_t{1} << exponent_bits) - 1) << (f.precision - 1);
  if (std::isnan(value)) {
    pattern |= uint64_t{1} << (f.precision - 2);
  } else if (value < 0) {
    pattern |= uint64_t{1} << (f.width - 1);
  }
  char text[32];
  std::snprintf(text, sizeof(text), "0x%0*llX", f.width / 4,
                static_cast<unsigned long long>(pattern));
  return text;
}

template <class T>
std::string shortest(T value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  std::string result(text, end);
  // MLIR takes a number for a floating one by its point.
  if (result.find('.') == std::string::npos) {
    const size_t at = std::min(result.find('e'), result.size());
    result.insert(at, ".0");
  }
  return result;
}

std::string floating(long double value, DType dtype) {
  const Format f = format(dtype);
  const double rounded = round_to(value, f);
  if (!std::isfinite(rounded)) return bits(rounded, f);
  if (dtype == DType::kF64) return shortest(rounded);
  // MLIR reads a double, then rounds it: that must give back the same number.
  const std::string text = shortest(static_cast<float>(rounded));
  return round_to(std::strtod(text.c_str(), nullptr), f) == rounded ? text : shortest(rounded);
}

std::string joined(std::span<const int64_t> values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text;
}

}  // namespace

std::string literal(std::complex<double> value, DType dtype) {
  if (!is_complex(dtype)) fail(Code::kInternal, "constant: ", name(dtype), " is not complex");
  return "(" + floating(value.real(), part(dtype)) + ", " + floating(value.imag(), part(dtype)) +
         ")";
}

std::string literal(double value, DType dtype) {
  if (is_complex(dtype)) return literal(std::complex<double>(value), dtype);
  if (is_floating(dtype)) return floating(value, dtype);
  // 2^63 is the least double beyond int64_t.
  if (!(value >= -0x1p63 && value < 0x1p63) || value != std::trunc(value)) {
    fail(Code::kInternal, "constant: ", value, " is no ", name(dtype));
  }
  return literal(static_cast<int64_t>(value), dtype);
}

std::string literal(int64_t value, DType dtype) {
  if (is_complex(dtype)) return "(" + literal(value, part(dtype)) + ", 0.0)";
  if (is_floating(dtype)) return floating(static_cast<long double>(value), dtype);
  const int bits = bit_width(dtype);
  const bool is_signed = dtype != DType::kBool && dtype != DType::kU8;
  const bool fits =
      is_signed ? value >> (bits - 1) == 0 || value >> (bits - 1) == -1 : value >> bits == 0;
  if (!fits) fail(Code::kInternal, "constant: ", value, " is no ", name(dtype));
  return dtype == DType::kBool ? boolean(value != 0) : std::to_string(value);
}

std::string tensor(const Type& type) {
  std::string text = "tensor<";
  for (const int64_t dim : type.dims) {
    if (dim < 0) fail(Code::kInternal, "type ", to_string(type), " has a negative dim");
    text += std::to_string(dim) + "x";
  }
  return text + mlir_name(type.dtype) + ">";
}

std::string array(std::span<const int64_t> values) {
  return values.empty() ? "array<i64>" : "array<i64: " + joined(values) + ">";
}

std::string list(std::span<const int64_t> values) { return "[" + joined(values) + "]"; }

std::string i64(int64_t value) { return std::to_string(value) + " : i64"; }

std::string boolean(bool value) { return value ? "true" : "false"; }

std::string padding(std::span<const int64_t> low, std::span<const int64_t> high) {
  std::string text;
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t pair[] = {low[i], high[i]};
    text += (i ? ", " : "") + list(pair);
  }
  return "dense<" + (low.empty() ? "" : "[" + text + "]") + "> : tensor<" +
         std::to_string(low.size()) + "x2xi64>";
}

}  // namespace torch_pjrt::hlo
