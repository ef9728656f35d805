// Random numbers from a draw: two numbers that name a stream. Element i of a result, in row-major
// order, is made from block i of the stream, and from nothing else.
#include <numbers>

#include "lower/philox.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

using hlo::Value;

// Flat values of one shape, one element for each of the result's.
class Stream {
 public:
  explicit Stream(const Call& c) : build_(c.build()), count_(c.result().num_elements()) {
    const Value draw = c.tensor("draw").value;
    const Value index = build_.iota(0, type(DType::kI64));
    const bool is_short = count_ <= int64_t{1} << 32;
    words_ = philox(build_,
                    {is_short ? index : low_word(build_, index),
                     is_short ? constant(0) : high_word(build_, index), word(draw, 1, low_word),
                     word(draw, 1, high_word)},
                    {word(draw, 0, low_word), word(draw, 0, high_word)});
  }

  const Value& word(int k) const { return words_[k]; }
  // Words k and k + 1 as one number.
  Value pair(int k) const {
    return emit(Op::kOr, emit(Op::kShiftLeft, words_[k], constant(32)), words_[k + 1]);
  }
  // The upper `digits` bits of word k, or of words k and k + 1 where a word has fewer.
  Value bits(int k, int digits) const {
    const int width = digits > 32 ? 64 : 32;
    return emit(Op::kShiftRightLogical, width == 64 ? pair(k) : words_[k],
                constant(width - digits));
  }

  Type type(DType dtype) const { return {dtype, {count_}}; }
  Value constant(int64_t value) const { return build_.constant(value, type(DType::kI64)); }
  Value emit(Op op, const Value& a, const Value& b) const { return build_.elementwise(op, {a, b}); }
  // A 0-d value for each element.
  Value spread(const Tensor& scalar) const {
    return build_.broadcast(build_.reshape(scalar.value, {}), {count_}, {});
  }

 private:
  using Part = Value (*)(hlo::Builder&, const Value&);
  Value word(const Value& draw, int64_t k, Part part) const {
    const Value number = build_.reshape(build_.slice(draw, {k}, {k + 1}, {1}), {});
    return build_.broadcast(part(build_, number), {count_}, {});
  }

  hlo::Builder& build_;
  int64_t count_;
  Words4 words_;
};

// Gives the flat values the result's dims.
Tensor shaped(const Call& c, const Value& flat) {
  return c.wrap(c.build().reshape(flat, c.result().dims));
}

bool is_empty(const Call& c) { return c.result().num_elements() == 0; }
Tensor empty(const Call& c) { return c.wrap(c.build().constant(0, c.result())); }

// Digits of a floating dtype's significand: so many random bits make a number that it can hold.
int digits(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 53;
    case DType::kF16:
      return 11;
    case DType::kBF16:
      return 8;
    default:
      return 24;
  }
}

// (bits + offset) / 2^digits: evenly spaced from 0 to just below 1, or with an offset of 1 from
// just above 0 to 1.
Value fraction(const Call& c, const Stream& stream, int k, int digits, int64_t offset) {
  Value bits = stream.bits(k, digits);
  if (offset != 0) bits = stream.emit(Op::kAdd, bits, stream.constant(offset));
  const DType dtype = digits > 24 ? DType::kF64 : DType::kF32;
  // 32-bit integers are converted many at a time.
  if (dtype == DType::kF32) bits = c.build().convert(bits, DType::kI32);
  const Value number = c.build().convert(bits, dtype);
  double step = 1;
  for (int i = 0; i < digits; ++i) step /= 2;
  return stream.emit(Op::kMultiply, number, c.build().constant(step, number.type));
}

// Evenly distributed in [0, 1), as many values as the dtype has digits for.
Results uniform(const Call& c) {
  if (is_empty(c)) return empty(c);
  return shaped(c, fraction(c, Stream(c), 0, digits(c.result().dtype), 0));
}

// By the method of Box and Muller, of which the sine is left unused.
Results normal(const Call& c) {
  if (is_empty(c)) return empty(c);
  const Stream stream(c);
  const bool is_double = c.result().dtype == DType::kF64;
  const int used = is_double ? 53 : 24;
  hlo::Builder& build = c.build();
  const Value u = fraction(c, stream, 0, used, 1);
  const Value v = fraction(c, stream, is_double ? 2 : 1, used, 0);
  const auto times = [&](double factor, const Value& x) {
    return stream.emit(Op::kMultiply, build.constant(factor, x.type), x);
  };
  const Value radius = build.elementwise(Op::kSqrt, {times(-2, build.elementwise(Op::kLog, {u}))});
  const Value angle = times(2 * std::numbers::pi, v);
  return shaped(c, stream.emit(Op::kMultiply, radius, build.elementwise(Op::kCosine, {angle})));
}

// True with probability p, to within 2^-32.
Results bernoulli(const Call& c) {
  if (is_empty(c)) return empty(c);
  const Stream stream(c);
  const Tensor p = c.scalar("p", DType::kF64);
  const Tensor limit = c.convert(c.emit(Op::kMultiply, {p, c.splat_like(p, 0x1p32)}), DType::kI64);
  return shaped(c, c.build().compare(hlo::Direction::kLt, stream.word(0), stream.spread(limit)));
}

// floor(a * b / 2^64) of unsigned 64-bit numbers, `a` given by its words, upper first.
Value upper_product(const Call& c, const Stream& s, const Words2& a, const Value& b) {
  hlo::Builder& build = c.build();
  const Value high = high_word(build, b);
  const Value low = low_word(build, b);
  const Value high_low = s.emit(Op::kMultiply, a[0], low);
  const Value low_high = s.emit(Op::kMultiply, a[1], high);
  const Value low_low = s.emit(Op::kMultiply, a[1], low);
  const Value middle =
      s.emit(Op::kAdd, high_word(build, low_low),
             s.emit(Op::kAdd, low_word(build, high_low), low_word(build, low_high)));
  const Value carried =
      s.emit(Op::kAdd, high_word(build, middle),
             s.emit(Op::kAdd, high_word(build, high_low), high_word(build, low_high)));
  return s.emit(Op::kAdd, s.emit(Op::kMultiply, a[0], high), carried);
}

// From `low` to `last`, both included; a value's probability is off by less than 2^-64.
Results integers(const Call& c) {
  if (is_empty(c)) return empty(c);
  const Stream stream(c);
  const Value low = stream.spread(c.scalar("low", DType::kI64));
  const Value last = stream.spread(c.scalar("last", DType::kI64));
  // How many there are, modulo 2^64: 0 stands for all.
  const Value range =
      stream.emit(Op::kAdd, stream.emit(Op::kSubtract, last, low), stream.constant(1));
  const Value is_all = c.build().compare(hlo::Direction::kEq, range, stream.constant(0));
  const Value below = upper_product(c, stream, {stream.word(0), stream.word(1)}, range);
  const Value offset = c.build().elementwise(Op::kSelect, {is_all, stream.pair(0), below});
  return shaped(c, stream.emit(Op::kAdd, low, offset));
}

// The indices in the order of random keys.
Results permutation(const Call& c) {
  if (is_empty(c)) return empty(c);
  const Stream stream(c);
  hlo::Builder& build = c.build();
  const Value indices = build.iota(0, stream.type(DType::kI64));
  const auto before = [&](std::span<const Value> v) {
    return std::vector<Value>{build.compare(hlo::Direction::kLt, v[0], v[1])};
  };
  return c.wrap(build.sort(std::vector<Value>{stream.pair(0), indices}, 0, true, before)[1]);
}

// The draw of one iteration of a loop: block `index` of the stream that the loop's draw names, of
// which no other numbers are made.
Results draw_of_iteration(const Call& c) {
  hlo::Builder& build = c.build();
  const Value draw = c.tensor("draw").value;
  const auto half = [&](int64_t k) {
    return build.reshape(build.slice(draw, {k}, {k + 1}, {1}), {});
  };
  const Value index = build.reshape(c.tensor("index").value, {});
  const Words4 words = philox(build,
                              {low_word(build, index), high_word(build, index),
                               low_word(build, half(1)), high_word(build, half(1))},
                              {low_word(build, half(0)), high_word(build, half(0))});
  const auto pair = [&](int k) {
    const Value shift = build.constant(32, words[k].type);
    const Value high = build.elementwise(Op::kShiftLeft, {words[k], shift});
    return build.reshape(build.elementwise(Op::kOr, {high, words[k + 1]}), {1});
  };
  const std::vector<Value> parts = {pair(0), pair(2)};
  return c.wrap(build.concatenate(parts, 0));
}

constexpr Entry kRules[] = {
    {"torch_pjrt::draw_of_iteration", draw_of_iteration},
    {"torch_pjrt::random_bernoulli", bernoulli},
    {"torch_pjrt::random_integers", integers, {{{"low", Role::kValue}, {"last", Role::kValue}}}},
    {"torch_pjrt::random_normal", normal},
    {"torch_pjrt::random_permutation", permutation},
    {"torch_pjrt::random_uniform", uniform},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> random_rules() { return kRules; }

}  // namespace torch_pjrt::lower
