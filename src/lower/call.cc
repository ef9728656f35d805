// Call: arguments by schema, and emission that keeps track of memory orders.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "lower/extreme.h"
#include "lower/lowering.h"
#include "lower/rules.h"
#include "lower/sum.h"

namespace torch_pjrt::lower {
namespace {

std::string text(ArgKey key) {
  return key.name.empty() ? str("#", key.index) : std::string(key.name);
}

template <class T>
void list_values(const Arg& arg, std::vector<T>& out) {
  if (const auto* list = std::get_if<ArgList>(&arg.v)) {
    for (const Arg& a : *list) list_values(a, out);
  } else if (const auto* v = std::get_if<T>(&arg.v)) {
    out.push_back(*v);
  }
}

std::vector<int64_t> positions_of(const std::vector<int64_t>& axes, const Order& order) {
  std::vector<int64_t> positions;
  for (size_t k = 0; k < order.size(); ++k) {
    if (std::ranges::find(axes, order[k]) != axes.end())
      positions.push_back(static_cast<int64_t>(k));
  }
  return positions;
}

// torch.result_type of operands: dims count more than 0-d tensors, these more than Python numbers,
// within a category.
class Promotion {
 public:
  void tensor(DType dtype, int64_t rank) { add(rank > 0 ? dims_ : zero_dim_, dtype); }
  void number(ScalarKind kind) {
    const DType dtype = dtype_of(kind);  // its default precision is the single one
    add(number_, dtype == DType::kF64 ? DType::kF32 : dtype == DType::kC128 ? DType::kC64 : dtype);
  }
  DType result() const { return combine(combine(dims_, zero_dim_), number_).value_or(DType::kF32); }

 private:
  using Maybe = std::optional<DType>;
  static void add(Maybe& to, DType dtype) { to = to ? promote(*to, dtype) : dtype; }
  static Maybe combine(Maybe strong, Maybe weak) {
    if (!strong || !weak) return strong ? strong : weak;
    if (category(*weak) <= category(*strong)) return strong;
    // The precision of a floating type stays when it becomes complex.
    if (is_complex(*weak) && is_floating(*strong)) return to_complex(*strong);
    return promote(*strong, *weak);
  }
  Maybe dims_;
  Maybe zero_dim_;
  Maybe number_;
};

}  // namespace

Dims Tensor::dims() const {
  Dims logical(order.size());
  for (size_t k = 0; k < order.size(); ++k) logical[order[k]] = value.type.dims[k];
  return logical;
}

Call::Call(Lowering& state, const Node& node) : state_(state), node_(node) {
  for (const SymType& t : node.results) results_.push_back(state.concrete(t));
}

const Options& Call::options() const { return state_.options(); }
hlo::Builder& Call::build() const { return state_.build(); }

const Arg& Call::find(ArgKey key) const {
  if (key.name.empty()) {
    if (key.index < static_cast<int>(node_.args.size())) return node_.args[key.index].arg;
  } else {
    for (const NamedArg& a : node_.args) {
      if (a.name == key.name) return a.arg;
    }
  }
  fail(Code::kInternal, op(), " has no argument ", text(key));
}

const Arg& Call::attr(ArgKey key) const {
  const Arg& arg = find(key);
  if (std::holds_alternative<Slot>(arg.v)) {
    fail(Code::kInternal, op(), ": the rule reads the value ", text(key), " as structure");
  }
  return arg;
}

bool Call::has(ArgKey key) const {
  return std::ranges::any_of(node_.args, [&](const NamedArg& a) { return a.name == key.name; });
}

bool Call::is_none(ArgKey key) const { return std::holds_alternative<None>(find(key).v); }
bool Call::is_tensor(ArgKey key) const { return std::holds_alternative<ValueRef>(find(key).v); }

bool Call::is_structure(ArgKey key) const {
  const Arg& arg = find(key);
  return !std::holds_alternative<ValueRef>(arg.v) && !std::holds_alternative<Slot>(arg.v);
}

double Call::number(ArgKey key) const {
  const Arg& arg = attr(key);
  if (const auto* s = std::get_if<Size>(&arg.v)) return static_cast<double>(state_.evaluate(*s));
  if (const auto* d = std::get_if<double>(&arg.v)) return *d;
  if (const auto* b = std::get_if<bool>(&arg.v)) return *b ? 1 : 0;
  fail(Code::kInternal, op(), ": ", text(key), " is no number");
}

int64_t Call::integer(ArgKey key) const {
  const Arg& arg = attr(key);
  if (const auto* s = std::get_if<Size>(&arg.v)) return state_.evaluate(*s);
  return static_cast<int64_t>(number(key));
}

int64_t Call::integer_or(ArgKey key, int64_t if_none) const {
  return is_none(key) ? if_none : integer(key);
}

std::optional<int64_t> Call::known_integer(ArgKey key) const {
  const auto* slot = std::get_if<Slot>(&find(key).v);
  return slot != nullptr ? state_.known_integer(*slot) : integer(key);
}

bool Call::flag(ArgKey key) const {
  const auto* b = std::get_if<bool>(&attr(key).v);
  if (b == nullptr) fail(Code::kInternal, op(), ": ", text(key), " is no bool");
  return *b;
}

std::vector<bool> Call::flags(ArgKey key) const {
  std::vector<bool> result;
  list_values(attr(key), result);
  return result;
}

std::string Call::string_or(ArgKey key, const std::string& if_none) const {
  const auto* s = std::get_if<std::string>(&attr(key).v);
  return s != nullptr ? *s : if_none;
}

std::vector<int64_t> Call::integers(ArgKey key) const {
  std::vector<Size> sizes;
  list_values(attr(key), sizes);
  std::vector<int64_t> result;
  for (const Size& s : sizes) result.push_back(state_.evaluate(s));
  return result;
}

int64_t Call::axis(ArgKey key, int64_t rank) const {
  const int64_t axis = integer(key);
  return axis < 0 ? axis + std::max<int64_t>(rank, 1) : axis;
}

std::vector<int64_t> Call::axes(ArgKey key, int64_t rank) const {
  std::vector<int64_t> axes = integers(key);
  if (axes.empty()) return lower::row_major(rank);
  if (rank == 0) return {};
  for (int64_t& a : axes) a = a < 0 ? a + rank : a;
  return axes;
}

ScalarClass Call::scalar_class(ArgKey key) const {
  const auto* slot = std::get_if<Slot>(&find(key).v);
  return slot != nullptr ? state_.graph().scalars[slot->index].scalar_class : ScalarClass::kOther;
}

bool Call::is_nonzero(ArgKey key) const {
  const auto* slot = std::get_if<Slot>(&find(key).v);
  if (slot == nullptr) return false;
  const Scalar& scalar = state_.graph().scalars[slot->index];
  return scalar.expr < 0 && scalar.scalar_class != ScalarClass::kZero;
}

DType Call::dtype(ArgKey key) const {
  const Arg& arg = find(key);
  if (const auto* ref = std::get_if<ValueRef>(&arg.v)) return state_.dtype(ref->id);
  if (const auto* slot = std::get_if<Slot>(&arg.v))
    return dtype_of(state_.graph().scalars[slot->index].kind);
  fail(Code::kInternal, op(), ": ", text(key), " is neither tensor nor value");
}

bool Call::is_used(size_t result) const {
  return state_.is_used(node_.first_result + static_cast<ValueId>(result));
}

std::optional<int64_t> Call::known_limit(ArgKey key, size_t item) const {
  const Arg* arg = &find(key);
  if (const auto* list = std::get_if<ArgList>(&arg->v)) arg = &list->at(item);
  const auto* ref = std::get_if<ValueRef>(&arg->v);
  return ref != nullptr ? state_.known_limit(ref->id) : std::nullopt;
}

Type Call::type(ArgKey key) const {
  const auto* ref = std::get_if<ValueRef>(&find(key).v);
  if (ref == nullptr) fail(Code::kInternal, op(), ": ", text(key), " is no tensor");
  return state_.type(ref->id);
}

int64_t Call::num_elements(ArgKey key) const {
  return is_tensor(key) ? type(key).num_elements() : 1;
}

Tensor Call::any_order(ArgKey key) const {
  const auto* ref = std::get_if<ValueRef>(&find(key).v);
  if (ref == nullptr) fail(Code::kInternal, op(), ": ", text(key), " is no tensor");
  return state_.value(ref->id);
}

Tensor Call::tensor(ArgKey key) const { return row_major(any_order(key)); }
Tensor Call::tensor(ArgKey key, const Order& order) const { return reorder(any_order(key), order); }

std::vector<std::optional<Tensor>> Call::any_order_list(ArgKey key) const {
  const auto* list = std::get_if<ArgList>(&find(key).v);
  if (list == nullptr) fail(Code::kInternal, op(), ": ", text(key), " is no list");
  std::vector<std::optional<Tensor>> result;
  for (const Arg& a : *list) {
    const auto* ref = std::get_if<ValueRef>(&a.v);
    result.push_back(ref != nullptr ? std::optional(state_.value(ref->id)) : std::nullopt);
  }
  return result;
}

std::vector<std::optional<Tensor>> Call::optional_tensors(ArgKey key) const {
  std::vector<std::optional<Tensor>> result = any_order_list(key);
  for (std::optional<Tensor>& t : result) {
    if (t) t = row_major(*t);
  }
  return result;
}

std::vector<Tensor> Call::any_order_tensors(ArgKey key) const {
  std::vector<Tensor> result;
  for (std::optional<Tensor>& t : any_order_list(key)) {
    if (!t) fail(Code::kInternal, op(), ": ", text(key), " holds a None");
    result.push_back(std::move(*t));
  }
  return result;
}

std::vector<Tensor> Call::tensors(ArgKey key) const {
  std::vector<Tensor> result = any_order_tensors(key);
  for (Tensor& t : result) t = row_major(t);
  return result;
}

DType Call::compute_dtype() const {
  if (compute_) return *compute_;
  Promotion promotion;
  for (const NamedArg& a : node_.args) {
    if (a.name == "alpha") continue;  // it scales an operand and is no operand
    std::vector<ValueRef> refs;
    list_values(a.arg, refs);
    for (const ValueRef r : refs) promotion.tensor(state_.dtype(r.id), state_.rank(r.id));
    if (const auto* slot = std::get_if<Slot>(&a.arg.v))
      promotion.number(state_.graph().scalars[slot->index].kind);
  }
  const DType result = results_[0].dtype;
  compute_ = opmath(result == DType::kBool ? promotion.result() : result);
  return *compute_;
}

Tensor Call::scalar(ArgKey key, DType dtype) const {
  const Arg& arg = find(key);
  if (const auto* slot = std::get_if<Slot>(&arg.v))
    return convert(wrap(state_.scalar(*slot)), dtype);
  return convert(any_order(key), dtype);
}

const Order& Call::common_order() const {
  if (common_order_) return *common_order_;
  // The order of the largest operand of the result's rank: moving the small ones costs least.
  common_order_ = lower::row_major(results_[0].rank());
  int64_t largest = -1;
  for (const NamedArg& a : node_.args) {
    const auto* ref = std::get_if<ValueRef>(&a.arg.v);
    if (ref == nullptr || state_.rank(ref->id) != results_[0].rank()) continue;
    const Tensor& t = state_.value(ref->id);
    if (t.value.type.num_elements() > largest) {
      largest = t.value.type.num_elements();
      common_order_ = t.order;
    }
  }
  return *common_order_;
}

Tensor Call::operand(const Arg& arg, DType dtype) const {
  Tensor t;
  if (const auto* slot = std::get_if<Slot>(&arg.v)) {
    t = wrap(state_.scalar(*slot));
  } else if (const auto* ref = std::get_if<ValueRef>(&arg.v)) {
    t = state_.value(ref->id);
  } else {
    fail(Code::kInternal, op(), ": an operand is neither tensor nor value");
  }
  return reorder(broadcast(convert(t, dtype), results_[0].dims), common_order());
}

Tensor Call::aligned(ArgKey key) const { return operand(find(key), compute_dtype()); }
Tensor Call::aligned(ArgKey key, DType dtype) const { return operand(find(key), dtype); }

Tensor Call::splat(double value) const { return splat(value, compute_dtype()); }
Tensor Call::splat(double value, DType dtype) const {
  return {build().constant(value, {dtype, permute(results_[0].dims, common_order())}),
          common_order()};
}
Tensor Call::splat_like(const Tensor& like, double value) const {
  return {build().constant(value, like.value.type), like.order};
}

Tensor Call::emit(Op op, std::initializer_list<Tensor> operands) const {
  std::vector<hlo::Value> values;
  for (const Tensor& t : operands) values.push_back(t.value);
  return {build().elementwise(op, values), operands.begin()->order};
}

Tensor Call::compare(hlo::Direction direction, const Tensor& a, const Tensor& b) const {
  return {build().compare(direction, a.value, b.value), a.order};
}

Tensor Call::select(const Tensor& predicate, const Tensor& on_true, const Tensor& on_false) const {
  return emit(Op::kSelect, {predicate, on_true, on_false});
}

Tensor Call::convert(const Tensor& t, DType dtype) const {
  if (t.dtype() == dtype) return t;
  if (dtype == DType::kBool) return compare(hlo::Direction::kNe, t, splat_like(t, 0));
  if (is_complex(t.dtype()) && !is_complex(dtype))
    unsupported("no rule for complex numbers; compute with their parts, x.real and x.imag");
  if (!is_floating(t.dtype()) || !is_integer(dtype))
    return {build().convert(t.value, dtype), t.order};
  // Float to a narrow integer goes through i32, wrapping as eager does; i32 and i64 give their
  // least value out of range.
  const DType via = dtype == DType::kI64 ? DType::kI64 : DType::kI32;
  const double limit = via == DType::kI64 ? 0x1p63 : 0x1p31;
  const Tensor wide = {build().convert(t.value, is_floating(t.dtype()) ? DType::kF64 : t.dtype()),
                       t.order};
  const Tensor below = compare(hlo::Direction::kLt, wide, splat_like(wide, limit));
  const Tensor above = compare(hlo::Direction::kGt, wide,
                               splat_like(wide, via == DType::kI64 ? -limit : -limit - 1));
  const Tensor inside = emit(Op::kAnd, {below, above});  // false for NaN
  const Tensor integer = {build().convert(wide.value, via), t.order};
  const int64_t least = via == DType::kI64 ? std::numeric_limits<int64_t>::min()
                                           : std::numeric_limits<int32_t>::min();
  const Tensor result =
      select(inside, integer, {build().constant(least, integer.value.type), t.order});
  return {build().convert(result.value, dtype), t.order};
}

Tensor Call::reorder(const Tensor& t, const Order& order) const {
  if (t.order == order) return t;
  const Order from = inverse(t.order);
  std::vector<int64_t> permutation;
  for (const int64_t d : order) permutation.push_back(from[d]);
  return {build().transpose(t.value, permutation), order};
}

Tensor Call::row_major(const Tensor& t) const { return reorder(t, lower::row_major(t.rank())); }

Tensor Call::wrap(hlo::Value value) const {
  const int64_t rank = value.type.rank();
  return {std::move(value), lower::row_major(rank)};
}

Tensor Call::broadcast(const Tensor& t, const Dims& dims) const {
  const Dims from = t.dims();
  if (from == dims) return t;
  const auto added = static_cast<int64_t>(dims.size() - from.size());
  // Stretched dims are dropped first: HLO broadcasts only dims of equal size.
  Order order = lower::row_major(added);
  Dims kept;
  std::vector<int64_t> positions;
  for (size_t k = 0; k < t.order.size(); ++k) {
    const int64_t d = t.order[k] + added;
    order.push_back(d);
    if (from[t.order[k]] == dims[d]) {
      kept.push_back(dims[d]);
      positions.push_back(added + static_cast<int64_t>(k));
    }
  }
  return {build().broadcast(build().reshape(t.value, kept), permute(dims, order), positions),
          order};
}

Tensor Call::reshape(const Tensor& t, const Dims& dims) const {
  return wrap(build().reshape(row_major(t).value, dims));
}

Tensor Call::view(const Tensor& t, const Dims& dims) const {
  const std::optional<Order> order = reshaped_order(t.dims(), t.order, dims);
  if (!order) return reshape(t, dims);
  return {build().reshape(t.value, permute(dims, *order)), *order};
}

Tensor Call::reduce(Op op, const Tensor& t, double init, const std::vector<int64_t>& axes) const {
  return reduce(op, t, build().constant(init, {t.dtype(), {}}), axes);
}

Tensor Call::reduce(Op op, const Tensor& t, const hlo::Value& init,
                    const std::vector<int64_t>& axes) const {
  hlo::Value value = t.value;
  const std::vector<int64_t> positions = positions_of(axes, t.order);
  const bool is_extreme = op == Op::kMaximum || op == Op::kMinimum;
  if (is_extreme && is_floating(t.dtype()) && options().platform == "cpu") {
    for (const int64_t p : positions) value = fewer(build(), options(), op, value, p);
  }
  return {build().reduce(op, value, init, positions), without(t.order, axes)};
}

Tensor Call::sum(const Tensor& t, const std::vector<int64_t>& axes) const {
  // Beside f32 arithmetic on a CPU, the few additions in f64 cost nothing.
  const bool widens = options().platform == "cpu";
  const DType wide = widens ? promote(t.dtype(), DType::kF64) : t.dtype();
  return {lower::sum(build(), t.value, positions_of(axes, t.order), wide), without(t.order, axes)};
}

Tensor Call::keep_dims(const Tensor& t, const std::vector<int64_t>& axes) const {
  Dims dims = t.dims();
  std::vector<int64_t> sorted_axes = axes;
  std::ranges::sort(sorted_axes);
  for (const int64_t a : sorted_axes) dims.insert(dims.begin() + a, 1);
  return reshape(t, dims);
}

size_t Call::num_parameters(size_t region) const {
  return node_.regions.at(region).parameters.size();
}

RegionResults Call::region(size_t index, std::span<const Tensor> arguments) const {
  return state_.lower_region(node_.regions.at(index), arguments);
}

bool Call::has_checks() const {
  return std::ranges::any_of(node_.regions,
                             [this](const Region& r) { return state_.has_checks(r); });
}

void Call::report(const Status& status) const { state_.set_status(node_, status); }

std::optional<Tensor> Call::write_permit() const {
  const std::optional<hlo::Value> ok = state_.write_permit(node_);
  return ok ? std::optional(wrap(*ok)) : std::nullopt;
}

std::optional<Tensor> Call::passed(int64_t nodes) const {
  const std::optional<hlo::Value> ok = state_.passed(node_, nodes);
  return ok ? std::optional(wrap(*ok)) : std::nullopt;
}

void Call::unsupported(std::string_view what) const { unsupported(what, kRewrite); }

void Call::unsupported(std::string_view what, std::string_view remedy) const {
  refuse(node_, what, remedy);
}

}  // namespace torch_pjrt::lower
