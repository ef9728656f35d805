// Element types, with the facts that every layer asks of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torch_pjrt {

// Ordered as PyTorch promotes within a category; the numbers are part of canonical bytes.
enum class DType : uint8_t {
  kBool = 0,
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kF16 = 6,
  kBF16 = 7,
  kF32 = 8,
  kF64 = 9,
  kC64 = 10,
  kC128 = 11,
};
inline constexpr int kNumDTypes = 12;

enum class Category : uint8_t { kBool, kInteger, kFloating, kComplex };

// Short name, e.g. "f32"; "bool" for kBool.
const char* name(DType dtype);

// Element type in StableHLO text, e.g. "i1", "ui8", "f32", "complex<f32>".
const char* mlir_name(DType dtype);

// Size of one element in memory, in bytes.
size_t byte_size(DType dtype);

Category category(DType dtype);
inline bool is_floating(DType d) { return category(d) == Category::kFloating; }
inline bool is_integer(DType d) { return category(d) == Category::kInteger; }
inline bool is_complex(DType d) { return category(d) == Category::kComplex; }

// The type of a complex type's real and imaginary parts; any other type itself.
DType part(DType dtype);

// The least complex type whose parts hold a floating type; a complex type itself. Integers and bool
// give kC64, as PyTorch's conversion of them with a Python complex number does.
DType to_complex(DType dtype);

// Width in bits of the value range: 1 for bool.
int bit_width(DType dtype);

// The type in which PyTorch's CPU kernels compute `dtype`: f32 for f16 and bf16, else itself.
DType opmath(DType dtype);

// The smallest type to which both promote (torch.promote_types).
DType promote(DType a, DType b);

}  // namespace torch_pjrt
