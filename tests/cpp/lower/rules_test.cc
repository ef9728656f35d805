#include "lower/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace torch_pjrt::lower {
namespace {

TEST(RulesTest, EveryListedOpIsFound) {
  const std::vector<std::string> all = ops();
  EXPECT_TRUE(std::ranges::is_sorted(all));
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "two families state one op";
  for (const std::string& op : all) {
    ASSERT_NE(find_rule(op), nullptr) << op;
    EXPECT_EQ(find_rule(op)->op, op);
    EXPECT_NE(find_rule(op)->rule, nullptr) << op;
    EXPECT_TRUE(has_rule(op));
  }
  for (const char* op : {"", "aten::", "aten::add", "aten::zzz", "zzz"}) {
    EXPECT_FALSE(has_rule(op)) << op;
  }
}

TEST(RulesTest, NumbersAreValuesByTheirTypeInTheSchema) {
  EXPECT_TRUE(is_value("aten::add.Tensor", "alpha", true, nullptr));
  EXPECT_FALSE(is_value("aten::sum.dim_IntList", "dim", false, nullptr));
  EXPECT_TRUE(is_value("aten::no_such_op", "x", true, nullptr));
}

TEST(RulesTest, ASmallExponentIsStructure) {
  const auto is_a_value = [](const Number& n) {
    return is_value("aten::pow.Tensor_Scalar", "exponent", true, &n);
  };
  for (const double e : {0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, 4.0}) {
    EXPECT_FALSE(is_a_value(Number::of_float(e))) << e;
    if (e == std::floor(e)) {
      EXPECT_FALSE(is_a_value(Number::of_int(static_cast<int64_t>(e)))) << e;
    }
  }
  for (const double e : {0.0, -0.0, 1.5, -3.0, -4.0, 5.0, 0.0 / 0.0}) {
    EXPECT_TRUE(is_a_value(Number::of_float(e))) << e;
  }
  EXPECT_TRUE(is_value("aten::pow.Tensor_Scalar", "exponent", true, nullptr)) << "not known yet";
}

TEST(RulesTest, APositionThatIsKnownIsStructure) {
  const Number three = Number::of_int(3);
  EXPECT_FALSE(is_value("aten::select.int", "index", false, &three));
  EXPECT_TRUE(is_value("aten::select.int", "index", false, nullptr));
  EXPECT_FALSE(is_value("aten::slice.Tensor", "step", false, nullptr));
}

TEST(RulesTest, AnExceptionNamesAnArgumentOnce) {
  for (const std::string& op : ops()) {
    std::vector<std::string_view> names;
    for (const RoleOf& e : find_rule(op)->exceptions) {
      if (!e.argument.empty()) names.push_back(e.argument);
    }
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end()) << op;
  }
}

}  // namespace
}  // namespace torch_pjrt::lower
