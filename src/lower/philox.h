// Philox4x32-10, a counter-based generator: random numbers as a pure function of a key and a
// counter. J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011.
#pragma once

#include <array>

#include "hlo/builder.h"

namespace torch_pjrt::lower {

// The generator's words are 32 bits wide; here each is an i64 from 0 to 2^32 - 1.
using Words4 = std::array<hlo::Value, 4>;
using Words2 = std::array<hlo::Value, 2>;

// One block of four words for each element. All values are i64 of one shape, and stand for words.
Words4 philox(hlo::Builder& build, Words4 counter, Words2 key);

// The lower and the upper word of an i64 of any shape.
hlo::Value low_word(hlo::Builder& build, const hlo::Value& v);
hlo::Value high_word(hlo::Builder& build, const hlo::Value& v);

}  // namespace torch_pjrt::lower
