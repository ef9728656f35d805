// Writing by index tensors. With duplicate indices the last one wins, or all are combined in order.
#include <algorithm>

#include "lower/check.h"
#include "lower/extreme.h"
#include "lower/positions.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

enum class Combine : uint8_t { kReplace, kAdd, kMultiply, kMaximum, kMinimum };

hlo::Region region(hlo::Builder& b, Combine combine) {
  return [&b, combine](std::span<const hlo::Value> v) -> std::vector<hlo::Value> {
    switch (combine) {
      case Combine::kReplace:
        return {v[1]};
      case Combine::kAdd:
        return {b.elementwise(v[0].type.dtype == DType::kBool ? Op::kOr : Op::kAdd, v)};
      case Combine::kMultiply:
        return {b.elementwise(v[0].type.dtype == DType::kBool ? Op::kAnd : Op::kMultiply, v)};
      case Combine::kMaximum:
        return {b.elementwise(Op::kMaximum, v)};
      case Combine::kMinimum:
        break;
    }
    return {b.elementwise(Op::kMinimum, v)};
  };
}

// Positions in `self` (the last dim of `starts`) that take updates.
struct Target {
  hlo::Value starts;
  hlo::Scatter numbers;

  Tensor write(const Call& c, const Tensor& self, const Tensor& updates, Combine combine) const {
    if (updates.value.type.num_elements() == 0) return self;
    hlo::Builder& b = c.build();
    return c.wrap(b.scatter(self.value, starts, updates.value, numbers, region(b, combine)));
  }
};

// Single elements, by an index tensor along one dim.
Target elements(const Call& c, const Tensor& index, int64_t dim, int64_t size) {
  Target t;
  t.starts = element_positions(c, wrapped(c, index, size), dim);
  t.numbers.inserted_window_dims = t.numbers.scatter_dims_to_operand_dims = row_major(index.rank());
  t.numbers.index_vector_dim = index.rank();
  return t;
}

Target slices(const Selection& s) {
  Target t;
  t.starts = s.starts;
  t.numbers.update_window_dims = s.window;
  t.numbers.inserted_window_dims = t.numbers.scatter_dims_to_operand_dims = s.indexed;
  t.numbers.index_vector_dim = static_cast<int64_t>(s.shape.size());
  return t;
}

// The combined updates where there are some; elsewhere self. `include_self`: self's element counts
// too.
Tensor reduced(const Call& c, const std::string& reduce, bool include_self, const Tensor& self,
               const Target& target, const Tensor& updates) {
  hlo::Builder& b = c.build();
  const auto starting_at = [&](const hlo::Value& neutral) {
    if (include_self) return self;
    const Tensor start = c.wrap(b.broadcast(neutral, updates.dims(), {}));
    return target.write(c, self, start, Combine::kReplace);
  };
  const auto number = [&](int value) { return b.constant(value, {self.dtype(), {}}); };
  if (reduce == "amax" || reduce == "amin") {
    const Op op = reduce == "amax" ? Op::kMaximum : Op::kMinimum;
    return target.write(c, starting_at(neutral(c, op, self.dtype())), updates,
                        op == Op::kMaximum ? Combine::kMaximum : Combine::kMinimum);
  }
  if (reduce == "prod" || reduce == "multiply")
    return target.write(c, starting_at(number(1)), updates, Combine::kMultiply);
  Tensor total = target.write(c, starting_at(number(0)), updates, Combine::kAdd);
  if (reduce == "sum" || reduce == "add") return total;
  if (reduce != "mean") c.unsupported("reduce='" + reduce + "' has no rule");
  Tensor count = target.write(c, c.splat_like(self, include_self ? 1 : 0), c.splat_like(updates, 1),
                              Combine::kAdd);
  count = c.emit(Op::kMaximum, {count, c.splat_like(count, 1)});
  Tensor quotient = c.emit(Op::kDivide, {total, count});
  if (is_floating(self.dtype())) return quotient;
  // Rounded down: one less where a remainder is below 0.
  const Tensor remainder = c.emit(Op::kRemainder, {total, count});
  const Tensor below = c.compare(hlo::Direction::kLt, remainder, c.splat_like(remainder, 0));
  return c.emit(Op::kSubtract, {quotient, c.convert(below, quotient.dtype())});
}

// A 0-d tensor as one of rank 1.
Tensor at_least_1d(const Call& c, const Tensor& t) { return t.rank() == 0 ? c.reshape(t, {1}) : t; }

struct ElementWrite {
  Tensor self, index, updates;  // of one rank, at least 1; updates have the index's dims
  int64_t dim;
};

// The operands of scatter(self, dim, index, source); `source` may be a number.
ElementWrite element_write(const Call& c, ArgKey source) {
  ElementWrite w;
  w.self = at_least_1d(c, c.tensor("self"));
  w.index = at_least_1d(c, c.tensor("index"));
  w.dim = c.axis("dim", w.self.rank());
  const Dims dims = w.index.dims();
  if (!c.is_tensor(source)) {
    w.updates = c.broadcast(c.scalar(source, w.self.dtype()), dims);
    return w;
  }
  const Tensor t = c.convert(at_least_1d(c, c.tensor(source)), w.self.dtype());
  w.updates = c.wrap(c.build().slice(t.value, Dims(t.rank(), 0), dims, Dims(t.rank(), 1)));
  return w;
}

Tensor write_elements(const Call& c, const ElementWrite& w, const std::string& reduce,
                      bool include_self) {
  if (w.updates.value.type.num_elements() == 0) return c.reshape(w.self, c.result().dims);
  Target target = elements(c, w.index, w.dim, w.self.dims()[w.dim]);
  if (reduce != "mean") target.starts = permitted(c, target.starts);
  const Tensor r = reduce.empty() ? target.write(c, w.self, w.updates, Combine::kReplace)
                                  : reduced(c, reduce, include_self, w.self, target, w.updates);
  return c.reshape(r, c.result().dims);
}

// Scatter with the source as argument 3, replacing.
Results scatter(const Call& c) { return write_elements(c, element_write(c, 3), "", true); }

Results scatter_add(const Call& c) { return write_elements(c, element_write(c, 3), "sum", true); }

Results scatter_by_name(const Call& c) {
  return write_elements(c, element_write(c, 3), c.string_or("reduce", ""), true);
}

Results scatter_reduce(const Call& c) {
  return write_elements(c, element_write(c, "src"), c.string_or("reduce", ""),
                        c.flag("include_self"));
}

// self[mask] = value for a value that is the same for every element of the mask.
Tensor masked_write(const Call& c, const Tensor& self, Tensor mask, const Tensor& values) {
  const int64_t inner = self.rank() - mask.rank();
  if (values.rank() > inner && values.value.type.num_elements() != 1)
    c.unsupported("a bool mask takes a number of values that depends on data", "use torch.where");
  Dims dims = mask.dims();
  dims.insert(dims.end(), inner, 1);
  mask = c.row_major(c.broadcast(c.reshape(mask, dims), self.dims()));
  const Tensor value = values.rank() > inner ? c.reshape(values, {}) : values;
  return c.select(mask, c.row_major(c.broadcast(value, self.dims())), self);
}

Results index_put(const Call& c) {
  const Tensor self = c.tensor("self");
  const Tensor values = c.tensor("values");
  const std::vector<std::optional<Tensor>> indices = c.optional_tensors("indices");
  const bool accumulate = c.flag("accumulate");
  if (indices.size() == 1 && indices[0] && indices[0]->dtype() == DType::kBool) {
    if (accumulate) c.unsupported("a bool mask with accumulate has no rule", "use torch.where");
    return masked_write(c, self, *indices[0], values);
  }
  const Selection s = select_positions(c, self.dims(), indices);
  const Tensor updates = c.row_major(c.broadcast(values, s.dims));
  Target target = slices(s);
  target.starts = permitted(c, target.starts);
  return target.write(c, self, updates, accumulate ? Combine::kAdd : Combine::kReplace);
}

Results index_reduce(const Call& c) {
  const Tensor self = at_least_1d(c, c.tensor("self"));
  std::vector<std::optional<Tensor>> indices(c.axis("dim", self.rank()));
  indices.emplace_back(at_least_1d(c, c.tensor("index")));
  const Selection s = select_positions(c, self.dims(), indices);
  const Tensor updates = c.broadcast(at_least_1d(c, c.tensor("source")), s.dims);
  return c.reshape(reduced(c, c.string_or("reduce", ""), c.flag("include_self"), self, slices(s),
                           c.row_major(updates)),
                   c.result().dims);
}

std::vector<Failure> check_index_reduce(const Call& c) {
  const Dims dims = c.type("self").dims;
  const int64_t size = dims.empty() ? 1 : dims[c.axis("dim", static_cast<int64_t>(dims.size()))];
  return check_range(c, c.any_order("index"), 0, size - 1,
                     {Problem::Kind::kIndexError, "index out of range in self"});
}

constexpr Entry kRules[] = {
    {"aten::index_put", index_put, {}, check_indices},
    {"aten::index_reduce", index_reduce, {}, check_index_reduce},
    {"aten::scatter.reduce", scatter_by_name, {}, check_element_index},
    {"aten::scatter.src", scatter, {}, check_element_index},
    {"aten::scatter.value", scatter, {}, check_element_index},
    {"aten::scatter.value_reduce", scatter_by_name, {}, check_element_index},
    {"aten::scatter_add", scatter_add, {}, check_element_index},
    {"aten::scatter_reduce.two", scatter_reduce, {}, check_element_index},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> scatter_rules() { return kRules; }

}  // namespace torch_pjrt::lower
