#include "lower/order.h"

#include <algorithm>
#include <numeric>

namespace torch_pjrt::lower {

Order row_major(int64_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

bool is_row_major(const Order& order) { return std::is_sorted(order.begin(), order.end()); }

Dims permute(const Dims& dims, const Order& order) {
  Dims result(order.size());
  for (size_t k = 0; k < order.size(); ++k) result[k] = dims[order[k]];
  return result;
}

Order inverse(const Order& order) {
  Order result(order.size());
  for (size_t k = 0; k < order.size(); ++k) result[order[k]] = static_cast<int64_t>(k);
  return result;
}

Order without(const Order& order, const std::vector<int64_t>& dropped) {
  Order rest;
  for (const int64_t d : order) {
    if (std::ranges::find(dropped, d) == dropped.end())
      rest.push_back(d - std::ranges::count_if(dropped, [d](int64_t a) { return a < d; }));
  }
  return rest;
}

std::optional<Order> dense_order(const Dims& dims, const Dims& strides) {
  const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  if (empty || strides == contiguous_strides(dims))
    return row_major(static_cast<int64_t>(dims.size()));
  // Dims of size 1 have no stride of their own: they go first, the others by falling stride.
  Order wide;
  Order order;
  for (size_t d = 0; d < dims.size(); ++d)
    (dims[d] == 1 ? order : wide).push_back(static_cast<int64_t>(d));
  std::ranges::sort(wide, [&](int64_t a, int64_t b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : a < b;
  });
  int64_t step = 1;
  for (auto it = wide.rbegin(); it != wide.rend(); ++it) {
    if (strides[*it] != step) return std::nullopt;
    step *= dims[*it];
  }
  if (std::is_sorted(wide.begin(), wide.end())) return row_major(static_cast<int64_t>(dims.size()));
  order.insert(order.end(), wide.begin(), wide.end());
  return order;
}

std::optional<Order> reshaped_order(const Dims& from, const Order& order, const Dims& to) {
  if (is_row_major(order) || std::ranges::find(from, 0) != from.end())
    return row_major(static_cast<int64_t>(to.size()));
  // Neighbouring dims of `from` that lie in memory like one, and the dims of `to` that split it.
  const Dims strides = dense_strides(from, order);
  Dims wanted(to.size(), 1);
  size_t k = to.size();
  for (size_t d = from.size(); d-- > 0;) {
    if (from[d] == 1) continue;
    const int64_t step = strides[d];
    int64_t count = from[d];
    for (; d > 0 && (from[d - 1] == 1 || strides[d - 1] == step * count); --d) count *= from[d - 1];
    int64_t taken = 1;
    while (k > 0 && taken < count) {
      --k;
      wanted[k] = step * taken;
      taken *= to[k];
    }
    if (taken != count) return std::nullopt;
  }
  return dense_order(to, wanted);
}

}  // namespace torch_pjrt::lower
