// Ops with regions: a choice, and loops. The first parameter of a loop's region is the number of
// the iteration, a 0-d i64.
#include "base/error.h"
#include "lower/rule.h"

namespace torch_pjrt::lower {
namespace {

using hlo::Direction;
using hlo::Value;

const Type kNumber{DType::kI64, {}};

Value number(const Call& c, int64_t value) { return c.build().constant(value, kNumber); }

// What a region gives, row-major, with the status if the node's regions check values.
std::vector<Value> finished(const Call& c, const RegionResults& results) {
  std::vector<Value> values;
  for (const Tensor& t : results.values) values.push_back(c.row_major(t).value);
  if (c.has_checks()) {
    values.push_back(results.status ? results.status->problem : number(c, 0));
    values.push_back(results.status ? results.status->value : number(c, 0));
  }
  return values;
}

// The state of a loop: the number of the iteration, what the loop carries, and the status.
class Loop {
 public:
  Loop(const Call& c, std::vector<Tensor> carried) : c_(c), carried_(carried.size()) {
    init_.push_back(number(c, 0));
    for (Tensor& t : carried) init_.push_back(std::move(t.value));
    if (c.has_checks()) init_.insert(init_.end(), 2, number(c, 0));
  }

  const std::vector<Value>& init() const { return init_; }

  std::vector<Tensor> tensors(std::span<const Value> state, size_t first, size_t count) const {
    std::vector<Tensor> tensors;
    for (size_t k = 0; k < count; ++k) tensors.push_back(c_.wrap(state[first + k]));
    return tensors;
  }
  std::vector<Tensor> with_number(std::span<const Value> state) const {
    return tensors(state, 0, 1 + carried_);
  }

  // Goes on as long as no problem was found.
  Value and_no_problem(const Value& goes_on, std::span<const Value> state) const {
    if (!c_.has_checks()) return goes_on;
    const Value none = c_.build().compare(Direction::kEq, state[1 + carried_], number(c_, 0));
    return c_.build().elementwise(Op::kAnd, {goes_on, none});
  }

  // The state after an iteration.
  std::vector<Value> next(std::span<const Value> state, std::vector<Value> values) const {
    values.insert(values.begin(), c_.build().elementwise(Op::kAdd, {state[0], number(c_, 1)}));
    return values;
  }

  Results results(std::span<const Value> state) const {
    if (c_.has_checks()) c_.report({state[1 + carried_], state[2 + carried_]});
    Results results;
    for (size_t k = 0; k < carried_; ++k) results.push_back(c_.wrap(state[1 + k]));
    return results;
  }

 private:
  const Call& c_;
  size_t carried_;
  std::vector<Value> init_;
};

Results cond(const Call& c) {
  const auto branch = [&](size_t index) {
    return [&c, index](std::span<const Value>) { return finished(c, c.region(index, {})); };
  };
  std::vector<Type> types;
  for (size_t k = 0; k < c.num_results(); ++k) types.push_back(c.result(k));
  if (c.has_checks()) types.insert(types.end(), 2, kNumber);
  const Value predicate = c.build().reshape(c.scalar("predicate", DType::kBool).value, {});
  const std::vector<Value> values = c.build().conditional(predicate, branch(0), branch(1), types);
  Results results;
  for (size_t k = 0; k < c.num_results(); ++k) results.push_back(c.wrap(values[k]));
  if (c.has_checks()) c.report({values[c.num_results()], values[c.num_results() + 1]});
  return results;
}

Results while_loop(const Call& c) {
  const Loop loop(c, c.tensors("carried"));
  const auto condition = [&](std::span<const Value> state) {
    const RegionResults results = c.region(0, loop.with_number(state));
    if (results.status) {
      c.unsupported("its condition has an op that raises errors for some values",
                    "compute it in the body, and carry it");
    }
    const Value goes_on = c.build().reshape(results.values.at(0).value, {});
    return std::vector<Value>{loop.and_no_problem(goes_on, state)};
  };
  const auto body = [&](std::span<const Value> state) {
    return loop.next(state, finished(c, c.region(1, loop.with_number(state))));
  };
  return loop.results(c.build().while_loop(loop.init(), condition, body));
}

// The element of `t` along its first dim.
Tensor element(const Call& c, const Tensor& t, const Value& index) {
  Dims sizes = t.dims();
  std::vector<Value> start(sizes.size(), number(c, 0));
  start[0] = index;
  sizes[0] = 1;
  const Value slice = c.build().dynamic_slice(t.value, start, sizes);
  return c.wrap(c.build().reshape(slice, Dims(sizes.begin() + 1, sizes.end())));
}

Value with_element(const Call& c, const Value& all, const Value& element, const Value& index) {
  Dims dims = element.type.dims;
  dims.insert(dims.begin(), 1);
  std::vector<Value> start(dims.size(), number(c, 0));
  start[0] = index;
  return c.build().dynamic_update_slice(all, c.build().reshape(element, dims), start);
}

// Carries values along the elements of `xs`: the region takes the number, what is carried and one
// element of each, and gives what is carried and an element of each further result.
Results scan(const Call& c) {
  const std::vector<Tensor> xs = c.tensors("xs");
  std::vector<Tensor> carried = c.tensors("init");
  const size_t num_init = carried.size();
  if (xs.empty()) c.unsupported("there is nothing to scan");
  const int64_t length = xs[0].dims()[0];
  for (size_t k = num_init; k < c.num_results(); ++k) {
    carried.push_back(c.wrap(c.build().constant(0, c.result(k))));
  }
  if (length == 0) return Results(carried.begin(), carried.end());
  const Loop loop(c, std::move(carried));
  const auto condition = [&](std::span<const Value> state) {
    const Value goes_on = c.build().compare(Direction::kLt, state[0], number(c, length));
    return std::vector<Value>{loop.and_no_problem(goes_on, state)};
  };
  const auto body = [&](std::span<const Value> state) {
    std::vector<Tensor> arguments = loop.tensors(state, 0, 1 + num_init);
    for (const Tensor& x : xs) arguments.push_back(element(c, x, state[0]));
    std::vector<Value> values = finished(c, c.region(0, arguments));
    for (size_t k = num_init; k < c.num_results(); ++k) {
      values[k] = with_element(c, state[1 + k], values[k], state[0]);
    }
    return loop.next(state, std::move(values));
  };
  return loop.results(c.build().while_loop(loop.init(), condition, body));
}

constexpr Entry kRules[] = {
    {"higher_order::cond", cond, {{{"predicate", Role::kValue}}}},
    {"higher_order::scan", scan},
    {"higher_order::while_loop", while_loop},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> control_rules() { return kRules; }

}  // namespace torch_pjrt::lower
