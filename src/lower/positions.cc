// Where index tensors point.
#include "lower/positions.h"

#include <algorithm>
#include <utility>

namespace torch_pjrt::lower {

Tensor wrapped(const Call& c, const Tensor& index, int64_t size) {
  const Tensor i = c.convert(index, DType::kI64);
  const Tensor negative = c.compare(hlo::Direction::kLt, i, c.splat_like(i, 0));
  return c.select(negative, c.emit(Op::kAdd, {i, c.splat_like(i, static_cast<double>(size))}), i);
}

Tensor with_last_dim(const Call& c, const Tensor& t) {
  Dims dims = t.dims();
  dims.push_back(1);
  return c.reshape(t, dims);
}

hlo::Value element_positions(const Call& c, const Tensor& index, int64_t dim) {
  std::vector<hlo::Value> parts;
  for (int64_t d = 0; d < index.rank(); ++d) {
    const Tensor position =
        d == dim ? index : c.wrap(c.build().iota(d, {DType::kI64, index.dims()}));
    parts.push_back(with_last_dim(c, position).value);
  }
  return c.build().concatenate(parts, index.rank());
}

hlo::Value permitted(const Call& c, const hlo::Value& starts) {
  const std::optional<Tensor> permit = c.write_permit();
  if (!permit) return starts;
  hlo::Builder& b = c.build();
  return b.elementwise(Op::kSelect, {permit->value, starts, b.constant(-1, starts.type)});
}

IndexedDims indexed_dims(const Call& c, const std::vector<std::optional<Tensor>>& indices) {
  IndexedDims result;
  Dims& shape = result.shape;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    if (indices[d]->dtype() == DType::kBool)
      c.unsupported("a bool mask gives a size that depends on data", "use torch.where");
    result.dims.push_back(static_cast<int64_t>(d));
    const Dims dims = indices[d]->dims();
    if (dims.size() > shape.size()) shape.insert(shape.begin(), dims.size() - shape.size(), 1);
    for (size_t k = 0; k < dims.size(); ++k) {
      int64_t& s = shape[shape.size() - dims.size() + k];
      if (s == 1) s = dims[k];
    }
  }
  return result;
}

Selection select_positions(const Call& c, const Dims& self,
                           const std::vector<std::optional<Tensor>>& indices) {
  Selection s;
  IndexedDims index = indexed_dims(c, indices);
  s.indexed = std::move(index.dims);
  s.shape = std::move(index.shape);
  const auto rank = static_cast<int64_t>(s.shape.size());
  std::vector<hlo::Value> parts;
  for (const int64_t d : s.indexed) {
    const Tensor i = c.row_major(c.broadcast(wrapped(c, *indices[d], self[d]), s.shape));
    parts.push_back(with_last_dim(c, i).value);
  }
  s.starts = c.build().concatenate(parts, rank);
  const bool adjacent =
      s.indexed.back() - s.indexed.front() + 1 == static_cast<int64_t>(s.indexed.size());
  s.place = adjacent ? s.indexed.front() : 0;
  for (size_t d = 0; d < self.size(); ++d) {
    if (std::ranges::find(s.indexed, static_cast<int64_t>(d)) == s.indexed.end())
      s.dims.push_back(self[d]);
  }
  for (int64_t k = 0; k < static_cast<int64_t>(s.dims.size()); ++k)
    s.window.push_back(k < s.place ? k : k + rank);
  s.dims.insert(s.dims.begin() + s.place, s.shape.begin(), s.shape.end());
  return s;
}

}  // namespace torch_pjrt::lower
