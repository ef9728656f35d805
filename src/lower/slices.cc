#include "lower/slices.h"

#include <algorithm>
#include <vector>

namespace torch_pjrt::lower {
namespace {

// How many elements from the first one to the last, which are `step` apart.
int64_t span_of(int64_t count, int64_t step) { return count == 0 ? 0 : (count - 1) * step + 1; }

// The start in all dims: 0 but for physical dim `at`.
std::vector<hlo::Value> starts(const Call& c, int64_t rank, int64_t at, const Start& start) {
  const Type type{DType::kI64, {}};
  std::vector<hlo::Value> result(rank, c.build().constant(0, type));
  result[at] = start.known ? c.build().constant(*start.known, type) : start.value;
  return result;
}

}  // namespace

Start start_of(const Call& c, ArgKey key, int64_t size) {
  if (const std::optional<int64_t> first = c.is_none(key) ? 0 : c.known_integer(key))
    return {std::clamp<int64_t>(*first < 0 ? *first + size : *first, 0, size), {}};
  const Tensor first = c.scalar(key, DType::kI64);
  const auto constant = [&](int64_t v) { return c.wrap(c.build().constant(v, first.value.type)); };
  const Tensor from_end = c.emit(Op::kAdd, {first, constant(size)});
  const Tensor is_negative = c.compare(hlo::Direction::kLt, first, constant(0));
  return {std::nullopt, c.select(is_negative, from_end, first).value};
}

Tensor sliced(const Call& c, const Tensor& t, int64_t dim, const Start& start, int64_t count,
              int64_t step) {
  hlo::Builder& b = c.build();
  const int64_t at = inverse(t.order)[dim];
  const Dims zeros(t.rank(), 0);
  const int64_t span = span_of(count, step);
  Dims limit = t.value.type.dims;
  Dims strides(t.rank(), 1);
  strides[at] = step;
  if (start.known || count == 0) {
    Dims from = zeros;
    from[at] = count == 0 ? 0 : *start.known;
    limit[at] = from[at] + span;
    return {b.slice(t.value, from, limit, strides), t.order};
  }
  limit[at] = span;
  const hlo::Value window = b.dynamic_slice(t.value, starts(c, t.rank(), at, start), limit);
  return {step == 1 ? window : b.slice(window, zeros, limit, strides), t.order};
}

Tensor overwritten(const Call& c, const Tensor& self, const Tensor& src, int64_t dim,
                   const Start& start, int64_t step) {
  const int64_t count = src.dims()[dim];
  if (count == 0) return self;
  hlo::Builder& b = c.build();
  const int64_t at = inverse(self.order)[dim];
  const std::vector<hlo::Value> from = starts(c, self.rank(), at, start);
  Dims dims = self.value.type.dims;
  dims[at] = span_of(count, step);
  const auto old = [&] { return b.dynamic_slice(self.value, from, dims); };
  hlo::Value part = src.value;
  if (step != 1) {
    const Dims zeros(self.rank(), 0);
    Dims gap = zeros;
    gap[at] = step - 1;
    const auto spread = [&](const hlo::Value& v) {
      return b.pad(v, b.constant(0, {v.type.dtype, {}}), zeros, zeros, gap);
    };
    const hlo::Value here = spread(b.constant(1, {DType::kBool, src.value.type.dims}));
    part = b.elementwise(Op::kSelect, {here, spread(src.value), old()});
  }
  if (const std::optional<Tensor> permit = c.write_permit())
    part = b.elementwise(Op::kSelect, {permit->value, part, old()});
  return {b.dynamic_update_slice(self.value, part, from), self.order};
}

}  // namespace torch_pjrt::lower
