// Checks that decompositions state: an operand with what is wrong with it, and assertions. And what
// becomes of a written tensor where a check fails.
#include "base/error.h"
#include "lower/check.h"

namespace torch_pjrt::lower {
namespace {

Problem::Kind kind_of(const std::string& error) {
  return error == "IndexError" ? Problem::Kind::kIndexError : Problem::Kind::kRuntimeError;
}

// The message with the sizes that it shows: "{0}" is the first.
std::string message(const Call& c) {
  std::string text = c.string_or("message", "");
  const std::vector<int64_t> sizes = c.integers("sizes");
  for (size_t k = 0; k < sizes.size(); ++k) {
    const std::string mark = str("{", k, "}");
    if (const size_t at = text.find(mark); at != std::string::npos)
      text.replace(at, mark.size(), std::to_string(sizes[k]));
  }
  return text;
}

// self, where no element of `bad` is true. The message may show self's element there.
Results checked(const Call& c) { return c.any_order("self"); }

std::vector<Failure> check_stated(const Call& c) {
  const Tensor bad = c.any_order("bad");
  if (bad.value.type.num_elements() == 0) return {};
  const Tensor self = c.any_order("self");
  const auto i64 = [&](int64_t v) { return c.wrap(c.build().constant(v, {DType::kI64, {}})); };
  const Tensor first = first_true(c, bad);
  const Problem problem{kind_of(c.string_or("error", "")), message(c)};
  const bool shows = self.dims() == bad.dims();
  return {{c.compare(hlo::Direction::kNe, first, i64(kNowhere)),
           shows ? element_at(c, self, first) : i64(0), problem}};
}

// self, or the old value where a check of the nodes before this one, so many of them, fails.
Results unless_bad(const Call& c) {
  const std::optional<Tensor> passed = c.passed(c.integer("nodes"));
  if (!passed) return c.any_order("self");
  const Tensor changed = c.any_order("self");
  const Tensor old = c.reorder(c.any_order("old"), changed.order);
  return Tensor{c.build().elementwise(Op::kSelect, {passed->value, changed.value, old.value}),
                changed.order};
}

Results nothing(const Call&) { return {}; }

std::vector<Failure> check_assertion(const Call& c) {
  const Tensor t = c.reshape(c.any_order("self"), {});
  const Tensor zero = c.wrap(c.build().constant(0, t.value.type));
  return {{c.compare(hlo::Direction::kEq, t, zero),
           c.wrap(c.build().constant(0, {DType::kI64, {}})),
           {Problem::Kind::kRuntimeError, c.string_or("assert_msg", "")}}};
}

constexpr Entry kRules[] = {
    {"aten::_assert_async.msg", nothing, {}, check_assertion},
    {"torch_pjrt::checked", checked, {}, check_stated},
    {"torch_pjrt::unless_bad", unless_bad},
};
static_assert(sorted(kRules));

}  // namespace

std::span<const Entry> checked_rules() { return kRules; }

}  // namespace torch_pjrt::lower
