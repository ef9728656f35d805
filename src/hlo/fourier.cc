// The discrete Fourier transform.
#include "hlo/builder.h"
#include "hlo/literal.h"
#include "hlo/require.h"

namespace torch_pjrt::hlo {
namespace {

const char* name(Fourier kind) {
  switch (kind) {
    case Fourier::kForward:
      return "FFT";
    case Fourier::kInverse:
      return "IFFT";
    case Fourier::kOfReal:
      return "RFFT";
    case Fourier::kToReal:
      break;
  }
  return "IRFFT";
}

}  // namespace

Value Builder::fft(const Value& v, Fourier kind, int64_t length) {
  const Value operands[] = {v};
  const bool of_real = kind == Fourier::kOfReal;
  require(v.type.rank() > 0 && of_real != is_complex(v.type.dtype), "fft", operands, "of kind ",
          name(kind));
  const bool is_half = kind == Fourier::kToReal;
  require(v.type.dims.back() == (is_half ? length / 2 + 1 : length), "fft", operands, "of length ",
          length);
  Type type = v.type;
  if (of_real) type = {to_complex(type.dtype), type.dims};
  if (is_half) type = {part(type.dtype), type.dims};
  if (of_real) type.dims.back() = length / 2 + 1;
  if (is_half) type.dims.back() = length;
  const int64_t lengths[] = {length};
  const Attributes attributes = {{"fft_length", array(lengths)},
                                 {"fft_type", str("#stablehlo<fft_type ", name(kind), ">")}};
  return one("fft", operands, attributes, type);
}

}  // namespace torch_pjrt::hlo
