// Gradients of max pooling, from the indices of the maxima.
#include "lower/pool_window.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

// Past this many elements, a window's gradients are scattered one by one.
constexpr int64_t kMaxWindow = 32;

// For each output: the flat index, in the image, of element `offset` of its window; negative
// outside of the image.
Tensor flat_index(const Call& c, const std::vector<PoolDim>& window,
                  const std::vector<int64_t>& offset, const Tensor& like) {
  constexpr int64_t kOutside = -(int64_t{1} << 40);
  Tensor flat = c.splat_like(like, 0);
  int64_t scale = 1;
  for (size_t k = window.size(); k-- > 0;) {
    const PoolDim& d = window[k];
    std::vector<int64_t> positions;
    for (int64_t o = 0; o < d.output; ++o) {
      const int64_t at = d.start(o) + offset[k] * d.dilation;
      positions.push_back(0 <= at && at < d.input ? at * scale : kOutside);
    }
    const auto dim = like.rank() - static_cast<int64_t>(window.size() - k);
    const Tensor line = along(c, positions, DType::kI64, dim, like.rank());
    flat = c.emit(Op::kAdd, {flat, c.reorder(c.broadcast(line, like.dims()), like.order)});
    scale *= d.input;
  }
  return flat;
}

// One term per element of the window: the gradients whose maximum is there, at their place.
Tensor by_window(const Call& c, const Tensor& grad, const Tensor& indices,
                 const std::vector<PoolDim>& window) {
  std::vector<int64_t> offset(window.size(), 0);
  std::optional<Tensor> total;
  while (true) {
    const Tensor here =
        c.compare(hlo::Direction::kEq, indices, flat_index(c, window, offset, indices));
    std::vector<int64_t> low;
    std::vector<int64_t> high;
    for (size_t k = 0; k < window.size(); ++k) {
      low.push_back(offset[k] * window[k].dilation - window[k].padding);
      high.push_back(window[k].input - low[k] - window[k].spread());
    }
    const Tensor term =
        spread_out(c, c.select(here, grad, c.splat_like(grad, 0)), window, low, high);
    total = total ? c.emit(Op::kAdd, {*total, term}) : term;
    size_t k = window.size();
    while (k > 0 && ++offset[k - 1] == window[k - 1].kernel) offset[--k] = 0;
    if (k == 0) return *total;
  }
}

// Adds each gradient to the element of its image that its index names.
Tensor by_index(const Call& c, const Tensor& grad, const Tensor& indices, const Dims& dims,
                int64_t count) {
  int64_t image = 1;
  int64_t images = 1;
  const auto first = static_cast<int64_t>(dims.size()) - count;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d)
    (d < first ? images : image) *= dims[d];
  const int64_t elements = grad.value.type.num_elements();
  const Tensor updates = c.reshape(grad, {elements});
  hlo::Builder& b = c.build();
  if (elements == 0 || image * images == 0) return c.wrap(b.constant(0, {grad.dtype(), dims}));
  const Dims by_image = {images, elements / images};
  const Tensor base =
      c.wrap(b.elementwise(Op::kMultiply, {b.iota(0, {DType::kI64, by_image}),
                                           b.constant(image, {DType::kI64, by_image})}));
  const Tensor flat = c.emit(Op::kAdd, {c.reshape(indices, by_image), base});
  hlo::Scatter s;
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  const auto add = [&](std::span<const hlo::Value> v) -> std::vector<hlo::Value> {
    return {b.elementwise(Op::kAdd, {v[0], v[1]})};
  };
  const hlo::Value zeros = b.constant(0, {grad.dtype(), {images * image}});
  return c.reshape(
      c.wrap(b.scatter(zeros, c.reshape(flat, {elements, 1}).value, updates.value, s, add)), dims);
}

template <int count>
Results max_pool_backward(const Call& c) {
  const Tensor grad = c.convert(c.any_order("grad_output"), opmath(c.result().dtype));
  const Tensor indices = c.tensor("indices", grad.order);
  const std::vector<PoolDim> window = pool_dims(c, c.result().dims, grad.dims(), count);
  int64_t elements = 1;
  for (const PoolDim& d : window) elements *= d.kernel;
  if (elements > kMaxWindow) return by_index(c, grad, indices, c.result().dims, count);
  return by_window(c, grad, indices, window);
}

template <int count>
Results adaptive_max_pool_backward(const Call& c) {
  const Tensor grad = c.convert(c.any_order("grad_output"), opmath(c.result().dtype));
  return by_index(c, grad, c.any_order("indices"), c.result().dims, count);
}

constexpr Entry kRules[] = {
    {"aten::adaptive_max_pool2d_backward", adaptive_max_pool_backward<2>},
    {"aten::adaptive_max_pool3d_backward", adaptive_max_pool_backward<3>},
    {"aten::max_pool2d_with_indices_backward", max_pool_backward<2>},
    {"aten::max_pool3d_with_indices_backward", max_pool_backward<3>},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> backward_max_pooling_rules() { return kRules; }

}  // namespace torch_pjrt::lower
