// Sums in stages: one long chain of additions loses a digit where the parts of it don't.
#include "lower/sum.h"

#include <algorithm>

namespace torch_pjrt::lower {
namespace {

// Up to so many elements are added in one reduction.
constexpr int64_t kFew = 1024;
// Additions in a row. XLA's CPU compiler cuts longer ones itself, into windows that it can't
// vectorise where they lie along the last dim.
constexpr int64_t kChain = 32;
// Chains side by side in memory, so that one vector instruction adds to several of them.
constexpr int64_t kLanes = 64;

// A tensor of which the dims that are marked are to be added up; no two of these are neighbours.
struct Summands {
  hlo::Value value;
  std::vector<bool> is_summed;

  std::vector<int64_t> summed() const {
    std::vector<int64_t> dims;
    for (size_t k = 0; k < is_summed.size(); ++k) {
      if (is_summed[k]) dims.push_back(static_cast<int64_t>(k));
    }
    return dims;
  }

  int64_t count() const {
    int64_t elements = 1;
    for (const int64_t d : summed()) elements *= value.type.dims[d];
    return elements;
  }

  size_t longest() const {
    const std::vector<int64_t> dims = summed();
    return *std::ranges::max_element(dims, {}, [&](int64_t d) { return value.type.dims[d]; });
  }
};

Summands merged(hlo::Builder& b, const hlo::Value& v, std::vector<bool> is_summed) {
  Dims dims;
  std::vector<bool> marks;
  for (size_t k = 0; k < is_summed.size(); ++k) {
    if (k > 0 && is_summed[k] && is_summed[k - 1]) {
      dims.back() *= v.type.dims[k];
    } else {
      dims.push_back(v.type.dims[k]);
      marks.push_back(is_summed[k]);
    }
  }
  return {b.reshape(v, dims), std::move(marks)};
}

// How a dim is seen as [parts, chain, lanes], but for its last elements.
struct Cut {
  int64_t chain, lanes, parts;
  int64_t covered() const { return chain * lanes * parts; }
};

// The chain that leaves the least over, and of these the longest. `inner`: elements between two
// neighbours along the dim.
Cut cut(int64_t size, int64_t inner) {
  const int64_t lanes = std::clamp<int64_t>(kLanes / inner, 1, std::max<int64_t>(size / kChain, 1));
  const int64_t longest = std::min(kChain, size / lanes);
  Cut best{longest, lanes, size / (longest * lanes)};
  for (int64_t chain = longest - 1; chain >= longest / 2 && chain > 1; --chain) {
    const Cut other{chain, lanes, size / (chain * lanes)};
    if (other.covered() > best.covered()) best = other;
  }
  return best;
}

hlo::Value part_of(hlo::Builder& b, const Summands& s, size_t dim, int64_t begin, int64_t end) {
  const Dims& dims = s.value.type.dims;
  if (begin == 0 && end == dims[dim]) return s.value;
  Dims start(dims.size(), 0);
  Dims limit = dims;
  start[dim] = begin;
  limit[dim] = end;
  return b.slice(s.value, start, limit, Dims(dims.size(), 1));
}

// In one reduction, if there are at most `few`. `zero` alternates between 0 and -0 from stage to
// stage: XLA would join two reductions that start from the same value.
hlo::Value add_up(hlo::Builder& b, const Summands& s, DType wide, int64_t few, double zero) {
  if (s.count() <= few) {
    const hlo::Value v = b.convert(s.value, wide);
    return b.reduce(hlo::Op::kAdd, v, b.constant(zero, {wide, {}}), s.summed());
  }
  const size_t dim = s.longest();
  const DType own = s.value.type.dtype;
  const Dims& dims = s.value.type.dims;
  int64_t inner = 1;
  for (size_t k = dim + 1; k < dims.size(); ++k) inner *= dims[k];
  const Cut c = cut(dims[dim], inner);

  Dims cut_dims = dims;
  cut_dims[dim] = c.parts;
  cut_dims.insert(cut_dims.begin() + static_cast<int64_t>(dim) + 1, {c.chain, c.lanes});
  const hlo::Value chains = b.reshape(part_of(b, s, dim, 0, c.covered()), cut_dims);
  const hlo::Value sums = b.reduce(hlo::Op::kAdd, chains, b.constant(-zero, {own, {}}),
                                   {static_cast<int64_t>(dim) + 1});
  std::vector<bool> marks = s.is_summed;
  marks.insert(marks.begin() + static_cast<int64_t>(dim), true);
  hlo::Value total = add_up(b, merged(b, b.convert(sums, wide), marks), wide, few, zero);
  if (c.covered() < dims[dim]) {
    const Summands rest{part_of(b, s, dim, c.covered(), dims[dim]), s.is_summed};
    total = b.elementwise(hlo::Op::kAdd, {total, add_up(b, rest, wide, few, zero)});
  }
  return total;
}

}  // namespace

hlo::Value sum(hlo::Builder& b, const hlo::Value& v, const std::vector<int64_t>& dims, DType wide) {
  std::vector<bool> is_summed(v.type.dims.size(), false);
  int64_t count = 1;
  for (const int64_t d : dims) {
    is_summed[d] = true;
    count *= v.type.dims[d];
  }
  const DType own = v.type.dtype;
  const bool rounds = is_floating(own) || is_complex(own);
  if (!rounds || count <= kFew || v.type.num_elements() == 0) {
    return b.reduce(hlo::Op::kAdd, v, b.constant(0, {own, {}}), dims);
  }
  // In a wider type the last chain may be long.
  const int64_t few = wide == own ? kChain : kFew;
  return b.convert(add_up(b, merged(b, v, std::move(is_summed)), wide, few, 0.0), own);
}

}  // namespace torch_pjrt::lower
