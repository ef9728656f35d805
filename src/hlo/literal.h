// Numbers, types and attributes as MLIR text.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/type.h"

namespace torch_pjrt::hlo {

// A number as it stands within `dense<...>`: decimals or bit patterns that parse to exactly the
// value, rounded once to a floating or complex dtype. Throws Error(kInternal) where an integer
// dtype or bool can't hold it.
std::string literal(double value, DType dtype);
std::string literal(int64_t value, DType dtype);
std::string literal(std::complex<double> value, DType dtype);  // of a complex dtype

// E.g. "tensor<2x3xf32>".
std::string tensor(const Type& type);

// E.g. "array<i64: 0, 1>".
std::string array(std::span<const int64_t> values);

// E.g. "[0, 1]".
std::string list(std::span<const int64_t> values);

// E.g. "1 : i64".
std::string i64(int64_t value);

// "true" or "false".
std::string boolean(bool value);

// Low and high padding of each dim, e.g. "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>".
std::string padding(std::span<const int64_t> low, std::span<const int64_t> high);

}  // namespace torch_pjrt::hlo
