#include "lower/philox.h"

#include <cstdint>

namespace torch_pjrt::lower {
namespace {

using hlo::Op;
using hlo::Value;

constexpr int kRounds = 10;
constexpr std::array<int64_t, 2> kMultipliers = {0xD2511F53, 0xCD9E8D57};
constexpr std::array<int64_t, 2> kKeySteps = {0x9E3779B9, 0xBB67AE85};

Value plus(hlo::Builder& build, const Value& a, int64_t b) {
  return build.elementwise(Op::kAdd, {a, build.constant(b, a.type)});
}

Value times(hlo::Builder& build, const Value& a, int64_t b) {
  return build.elementwise(Op::kMultiply, {a, build.constant(b, a.type)});
}

Value exclusive_or(hlo::Builder& build, const Value& a, const Value& b, const Value& c) {
  return build.elementwise(Op::kXor, {build.elementwise(Op::kXor, {a, b}), c});
}

}  // namespace

Value low_word(hlo::Builder& build, const Value& v) {
  return build.elementwise(Op::kAnd, {v, build.constant(int64_t{0xFFFFFFFF}, v.type)});
}

Value high_word(hlo::Builder& build, const Value& v) {
  return build.elementwise(Op::kShiftRightLogical, {v, build.constant(32, v.type)});
}

Words4 philox(hlo::Builder& build, Words4 counter, Words2 key) {
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) {
      for (int k = 0; k < 2; ++k) key[k] = low_word(build, plus(build, key[k], kKeySteps[k]));
    }
    // A product's 64 bits are right though it may be negative as an i64.
    const Value first = times(build, counter[0], kMultipliers[0]);
    const Value second = times(build, counter[2], kMultipliers[1]);
    counter = {
        exclusive_or(build, high_word(build, second), counter[1], key[0]), low_word(build, second),
        exclusive_or(build, high_word(build, first), counter[3], key[1]), low_word(build, first)};
  }
  return counter;
}

}  // namespace torch_pjrt::lower
