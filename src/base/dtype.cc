#include "base/dtype.h"

#include <algorithm>
#include <array>

namespace torch_pjrt {
namespace {

struct Facts {
  const char* name;
  const char* mlir;
  uint8_t bytes;
  uint8_t bits;
  Category category;
};

constexpr std::array<Facts, kNumDTypes> kFacts = {{
    {"bool", "i1", 1, 1, Category::kBool},
    {"u8", "ui8", 1, 8, Category::kInteger},
    {"i8", "i8", 1, 8, Category::kInteger},
    {"i16", "i16", 2, 16, Category::kInteger},
    {"i32", "i32", 4, 32, Category::kInteger},
    {"i64", "i64", 8, 64, Category::kInteger},
    {"f16", "f16", 2, 16, Category::kFloating},
    {"bf16", "bf16", 2, 16, Category::kFloating},
    {"f32", "f32", 4, 32, Category::kFloating},
    {"f64", "f64", 8, 64, Category::kFloating},
    {"c64", "complex<f32>", 8, 64, Category::kComplex},
    {"c128", "complex<f64>", 16, 128, Category::kComplex},
}};

const Facts& facts(DType d) { return kFacts[static_cast<size_t>(d)]; }

}  // namespace

const char* name(DType d) { return facts(d).name; }
const char* mlir_name(DType d) { return facts(d).mlir; }
size_t byte_size(DType d) { return facts(d).bytes; }
Category category(DType d) { return facts(d).category; }
int bit_width(DType d) { return facts(d).bits; }

DType opmath(DType d) { return d == DType::kF16 || d == DType::kBF16 ? DType::kF32 : d; }

DType part(DType d) {
  if (d == DType::kC64) return DType::kF32;
  return d == DType::kC128 ? DType::kF64 : d;
}

DType to_complex(DType d) { return part(d) == DType::kF64 ? DType::kC128 : DType::kC64; }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_complex(a) || is_complex(b)) return std::max(to_complex(a), to_complex(b));
  if (category(a) != category(b)) return std::max(a, b);
  const auto either = [&](DType d) { return a == d || b == d; };
  if (either(DType::kU8) && either(DType::kI8)) return DType::kI16;
  if (either(DType::kF16) && either(DType::kBF16)) return DType::kF32;
  return std::max(a, b);
}

}  // namespace torch_pjrt
