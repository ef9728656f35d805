// Random counts from a draw: the Poisson and the binomial distribution. Element i is made from
// blocks of the draw's stream that no other element reads, by trials that are repeated until all
// elements have theirs.
//
// W. Hoermann, "The transformed rejection method for generating Poisson random variables",
// Insurance: Mathematics and Economics 12 (1993), and "The generation of binomial random variates",
// Journal of Statistical Computation and Simulation 46 (1993): PTRS and BTRS, for means of 10 and
// more. Below, events are counted one by one.
#include <cmath>
#include <functional>
#include <numbers>

#include "lower/philox.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

using hlo::Direction;
using hlo::Value;

constexpr double kLeastMean = 10;  // from which the rejection methods hold

// A value with the arithmetic of f64.
struct Real {
  hlo::Builder* build;
  Value value;

  Real of(double v) const { return {build, build->constant(v, value.type)}; }
  Real apply(Op op) const { return {build, build->elementwise(op, {value})}; }
  Real apply(Op op, const Real& b) const {
    return {build, build->elementwise(op, {value, b.value})};
  }
};

Real operator+(const Real& a, const Real& b) { return a.apply(Op::kAdd, b); }
Real operator-(const Real& a, const Real& b) { return a.apply(Op::kSubtract, b); }
Real operator*(const Real& a, const Real& b) { return a.apply(Op::kMultiply, b); }
Real operator/(const Real& a, const Real& b) { return a.apply(Op::kDivide, b); }
Real operator+(const Real& a, double b) { return a + a.of(b); }
Real operator-(const Real& a, double b) { return a - a.of(b); }
Real operator*(const Real& a, double b) { return a * a.of(b); }
Real operator-(double a, const Real& b) { return b.of(a) - b; }
Real operator/(double a, const Real& b) { return b.of(a) / b; }
Real log(const Real& a) { return a.apply(Op::kLog); }
Real floor(const Real& a) { return a.apply(Op::kFloor); }

// A bool for each element.
struct Truth {
  hlo::Builder* build;
  Value value;
};

Truth compared(Direction direction, const Real& a, const Real& b) {
  return {a.build, a.build->compare(direction, a.value, b.value)};
}
Truth operator<(const Real& a, const Real& b) { return compared(Direction::kLt, a, b); }
Truth operator<=(const Real& a, const Real& b) { return compared(Direction::kLe, a, b); }
Truth operator<(const Real& a, double b) { return a < a.of(b); }
Truth operator<=(const Real& a, double b) { return a <= a.of(b); }
Truth both(const Truth& a, const Truth& b) {
  return {a.build, a.build->elementwise(Op::kAnd, {a.value, b.value})};
}
Truth either(const Truth& a, const Truth& b) {
  return {a.build, a.build->elementwise(Op::kOr, {a.value, b.value})};
}
Truth operator!(const Truth& a) { return {a.build, a.build->elementwise(Op::kNot, {a.value})}; }
Real select(const Truth& p, const Real& a, const Real& b) {
  return {a.build, a.build->elementwise(Op::kSelect, {p.value, a.value, b.value})};
}

// log(k!) less Stirling's formula, (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2.
Real stirling_tail(const Real& k) {
  const Real square = (k + 1) * (k + 1);
  const Real series = (1.0 / 12 - (1.0 / 360 - (1.0 / 1260) / square) / square) / (k + 1);
  // Of small k it is made of that of k + 8 by k! = (k + 8)! / ((k + 1) ... (k + 8)).
  const Real n = k + 8;
  const Real far = (n + 1) * (n + 1);
  Real product = k + 1;
  for (int factor = 2; factor <= 8; ++factor) product = product * (k + factor);
  const Real small = (n + 0.5) * log(n + 1) - 8 - log(product) - (k + 0.5) * log(k + 1) +
                     (1.0 / 12 - (1.0 / 360 - (1.0 / 1260) / far) / far) / (n + 1);
  return select(k < 10, small, series);
}

Real log_factorial(const Real& k) {
  const double half_log_two_pi = std::log(2 * std::numbers::pi) / 2;
  return (k + 0.5) * log(k + 1) - (k + 1) + half_log_two_pi + stirling_tail(k);
}

// Two numbers for each element in a trial: u in (0, 1], v in (0, 1].
struct Uniform {
  Real u;
  Real v;
};

struct Trial {
  Truth accepted;
  Real count;  // where it is accepted
  Real sum;    // of an element whose events are counted
};

// One trial, of elements with these parameters, their counts so far, and their sums.
using Try = std::function<Trial(const Uniform&, std::span<const Real> parameters, const Real& count,
                                const Real& sum)>;

Value whole(hlo::Builder& b, int64_t v, const Value& like) { return b.constant(v, like.type); }

// u and v of trial number `trial`, 0-d, for `n` elements.
Uniform uniform(hlo::Builder& b, const Value& draw, const Value& trial, int64_t n) {
  const Type type{DType::kI64, {n}};
  const Value index = b.iota(0, type);
  const auto word = [&](int64_t k, Value (*part)(hlo::Builder&, const Value&)) {
    return b.broadcast(part(b, b.reshape(b.slice(draw, {k}, {k + 1}, {1}), {})), {n}, {});
  };
  // The counter's second word holds the index's upper bits and, above these, the trial.
  const Value number = b.elementwise(Op::kShiftLeft, {trial, whole(b, 12, trial)});
  const Value second =
      b.elementwise(Op::kOr, {high_word(b, index), b.broadcast(low_word(b, number), {n}, {})});
  const Words4 words =
      philox(b, {low_word(b, index), second, word(1, low_word), word(1, high_word)},
             {word(0, low_word), word(0, high_word)});
  const auto fraction = [&](int k) {
    const Value high = b.elementwise(Op::kShiftLeft, {words[k], whole(b, 32, index)});
    const Value bits = b.elementwise(Op::kOr, {high, words[k + 1]});
    const Value digits = b.elementwise(Op::kShiftRightLogical, {bits, whole(b, 11, index)});
    return (Real{&b, b.convert(digits, DType::kF64)} + 1) * 0x1p-53;
  };
  return {fraction(0), fraction(2)};
}

// The counts of elements that are not settled to begin with, by repeated trials.
Real by_trials(const Value& draw, const std::vector<Real>& parameters, const Real& count,
               const Truth& settled, const Try& attempt) {
  hlo::Builder& b = *count.build;
  const int64_t n = count.value.type.num_elements();
  const Type number{DType::kI64, {}};
  std::vector<Value> state = {b.constant(0, number), draw, settled.value, count.value,
                              count.of(0).value};
  const size_t first = state.size();
  for (const Real& p : parameters) state.push_back(p.value);
  const auto any_left = [&](std::span<const Value> s) -> std::vector<Value> {
    const Value left = b.elementwise(Op::kNot, {s[2]});
    return {b.reduce(Op::kOr, left, b.constant(0, {DType::kBool, {}}), {0})};
  };
  const auto next = [&](std::span<const Value> s) -> std::vector<Value> {
    std::vector<Real> own;
    for (size_t k = first; k < s.size(); ++k) own.push_back({&b, s[k]});
    const Truth done{&b, s[2]};
    const Real so_far{&b, s[3]};
    const Trial t = attempt(uniform(b, s[1], s[0], n), own, so_far, {&b, s[4]});
    std::vector<Value> result(s.begin(), s.end());
    result[0] = b.elementwise(Op::kAdd, {s[0], b.constant(1, number)});
    result[2] = either(done, t.accepted).value;
    result[3] = select(done, so_far, t.count).value;
    result[4] = t.sum.value;
    return result;
  };
  return {&b, b.while_loop(state, any_left, next)[3]};
}

// The parameters of a rejection method: k = floor((2 a / us + b) u + centre).
struct Hat {
  Real a;
  Real b;
  Real centre;
  Real accepted_below;  // v of which most k are taken at once
};

struct Proposal {
  Real k;
  Real scale;  // of v, before it is compared with the probabilities: 1 / (a / us^2 + b)
  Truth at_once;
  Truth hopeless;
};

Proposal propose(const Hat& hat, const Uniform& r) {
  const Real u = r.u - 0.5;
  const Real us = 0.5 - u.apply(Op::kAbs);
  const Real k = floor((hat.a * 2 / us + hat.b) * u + hat.centre);
  return {k, 1 / (hat.a / (us * us) + hat.b), both(us.of(0.07) <= us, r.v <= hat.accepted_below),
          either(k < 0, both(us < 0.013, us < r.v))};
}

Trial try_poisson(const Uniform& r, std::span<const Real> parameters, const Real& count,
                  const Real& sum) {
  const Real& rate = parameters[0];
  const Real b = rate.apply(Op::kSqrt) * 2.53 + 0.931;
  const Real a = b * 0.02483 - 0.059;
  const Proposal p = propose({a, b, rate + 0.43, 0.9277 - 3.6224 / (b - 2)}, r);
  const Real inverse_alpha = 1.1328 / (b - 3.4) + 1.1239;
  const Truth fits =
      log(r.v * inverse_alpha * p.scale) <= p.k * log(rate) - rate - log_factorial(p.k);
  // The events until the sum of their exponential waiting times is beyond the rate.
  const Real later = sum - log(r.u);
  const Truth is_last = rate < later;
  const Truth is_small = rate < kLeastMean;
  const Truth taken = either(p.at_once, both(!p.hopeless, fits));
  return {either(both(is_small, is_last), both(!is_small, taken)),
          select(is_small, select(is_last, count, count + 1), p.k), later};
}

Trial try_binomial(const Uniform& r, std::span<const Real> parameters, const Real& count,
                   const Real& sum) {
  const Real& n = parameters[0];
  const Real& chance = parameters[1];
  const Real deviation = (n * chance * (1 - chance)).apply(Op::kSqrt);
  const Real b = deviation * 2.53 + 1.15;
  const Real a = b * 0.0248 - 0.0873 + chance * 0.01;
  const Proposal p = propose({a, b, n * chance + 0.5, 0.92 - 4.2 / b}, r);
  const Real alpha = (5.1 / b + 2.83) * deviation;
  const Real odds = chance / (1 - chance);
  const Real m = floor((n + 1) * chance);
  const Real upper = (m + 0.5) * log((m + 1) / (odds * (n - m + 1))) +
                     (n + 1) * log((n - m + 1) / (n - p.k + 1)) +
                     (p.k + 0.5) * log(odds * (n - p.k + 1) / (p.k + 1)) + stirling_tail(m) +
                     stirling_tail(n - m) - stirling_tail(p.k) - stirling_tail(n - p.k);
  const Truth within = both(!(p.k < 0), p.k <= n);
  const Truth fits = log(r.v * alpha * p.scale) <= upper;
  // The successes until the sum of their geometric waiting times is beyond n.
  const Real failure = (0 - chance).apply(Op::kLogPlusOne);
  const Real later = sum + (log(r.u) / failure).apply(Op::kCeil);
  const Truth is_last = n < later;
  const Truth is_small = n * chance < kLeastMean;
  const Truth taken = both(within, either(p.at_once, fits));
  return {either(both(is_small, is_last), both(!is_small, taken)),
          select(is_small, select(is_last, count, count + 1), p.k), later};
}

Real flat(const Call& c, ArgKey key) {
  return {&c.build(), c.build().reshape(c.tensor(key).value, {c.result().num_elements()})};
}

Results shaped(const Call& c, const Real& counts) {
  return c.wrap(c.build().reshape(counts.value, c.result().dims));
}

// Of rates beyond f64's whole numbers the count is the rate itself; NaN stays.
Results poisson(const Call& c) {
  if (c.result().num_elements() == 0) return c.tensor("rate");
  const Real rate = flat(c, "rate");
  const Truth drawn = both(rate.of(0) < rate, rate < 0x1p53);
  const Real start = select(either(drawn, rate < 0), rate.of(0), rate);
  return shaped(c, by_trials(c.tensor("draw").value, {rate}, start, !drawn, try_poisson));
}

// Of chances above 1/2 the failures are counted.
Results binomial(const Call& c) {
  if (c.result().num_elements() == 0) return c.tensor("count");
  const Real n = flat(c, "count");
  const Real chance = flat(c, "chance");
  const Truth is_likely = chance.of(0.5) < chance;
  const Real less_likely = select(is_likely, 1 - chance, chance);
  const Truth drawn = both(both(n.of(0) < n, n < 0x1p53), both(chance.of(0) < chance, chance < 1));
  const Real sure = select(either(n <= 0, chance <= 0), n.of(0), n * chance);
  const Real certain = select(both(n.of(0) < n, chance.of(1) <= chance), n, sure);
  const Real start = select(drawn, n.of(0), certain);
  const Real counts =
      by_trials(c.tensor("draw").value, {n, less_likely}, start, !drawn, try_binomial);
  return shaped(c, select(both(drawn, is_likely), n - counts, counts));
}

constexpr Entry kRules[] = {
    {"torch_pjrt::random_binomial", binomial},
    {"torch_pjrt::random_poisson", poisson},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> random_counts_rules() { return kRules; }

}  // namespace torch_pjrt::lower
