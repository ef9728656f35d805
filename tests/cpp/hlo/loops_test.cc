// Ops with regions, computed by the plugin.
#include "program.h"

namespace torch_pjrt::hlo {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<int64_t>;

constexpr DType kFloat = DType::kF32;

struct Loops : testing::Test {
  Program p;
  Builder& build = p.build;
  Value a = p.floats({2, 3}, {3, 1, 2, 6, 5, 4});
  Value zero = build.constant(0, {kFloat, {}});
};

TEST_F(Loops, Reduce) {
  EXPECT_EQ(p.floats(build.reduce(Op::kAdd, a, zero, {1})), (Floats{6, 15}));
  EXPECT_EQ(p.floats(build.reduce(Op::kMaximum, a, zero, {0})), (Floats{6, 5, 4}));
  EXPECT_EQ(p.floats(build.reduce(Op::kAdd, a, zero, {1, 0})), (Floats{21}));
}

TEST_F(Loops, ReduceOfNothing) {
  const Value empty = p.floats({2, 0}, {});
  const Value one = build.constant(1, {kFloat, {}});
  EXPECT_EQ(p.floats(build.reduce(Op::kMultiply, empty, one, {1})), (Floats{1, 1}));
  EXPECT_EQ(p.floats(build.reduce(Op::kMultiply, empty, one, {0})), Floats{});
  EXPECT_EQ(p.floats(build.reduce(Op::kMultiply, empty, one, {0, 1})), Floats{1});
}

// The greatest value and where it is.
Region greatest(Builder& build) {
  return [&build](std::span<const Value> v) {
    const Value keep = build.compare(Direction::kGe, v[0], v[2]);
    return std::vector<Value>{build.elementwise(Op::kSelect, {keep, v[0], v[2]}),
                              build.elementwise(Op::kSelect, {keep, v[1], v[3]})};
  };
}

TEST_F(Loops, ReduceOfTwo) {
  const Value values[] = {a, build.iota(1, {DType::kI64, {2, 3}})};
  const Value inits[] = {build.constant(-1e30, {kFloat, {}}), build.constant(0, {DType::kI64, {}})};
  const auto data = p.run(build.reduce(values, inits, {1}, greatest(build)));
  EXPECT_EQ(values_of<float>(data[0]), (Floats{3, 6}));
  EXPECT_EQ(values_of<int64_t>(data[1]), (Longs{0, 0}));
  const Value none[] = {build.constant(0, {kFloat, {0, 3}}),
                        build.constant(0, {DType::kI64, {0, 3}})};
  const auto of_none = p.run(build.reduce(none, inits, {0}, greatest(build)));
  EXPECT_EQ(values_of<int64_t>(of_none[1]), (Longs{0, 0, 0}));
}

TEST_F(Loops, WhileUsesOuterValues) {
  const Type integer{DType::kI64, {}};
  const Value factor = p.floats({}, {2});
  const Value end = build.constant(0, integer);
  const Value init[] = {zero, build.constant(3, integer)};
  const auto results = build.while_loop(
      init,
      [&](std::span<const Value> v) {
        return std::vector<Value>{build.compare(Direction::kGt, v[1], end)};
      },
      [&](std::span<const Value> v) {
        const Value sum = build.reduce(Op::kAdd, a, zero, {0, 1});
        return std::vector<Value>{
            build.elementwise(Op::kMultiply, {factor, build.elementwise(Op::kAdd, {sum, v[0]})}),
            build.elementwise(Op::kSubtract, {v[1], build.constant(1, integer)})};
      });
  EXPECT_EQ(p.floats(results[0]), Floats{294});
  const auto outside = build.while_loop(
      std::vector{zero},
      [&](std::span<const Value> v) {
        return std::vector<Value>{build.compare(Direction::kLt, v[0], factor)};
      },
      [&](std::span<const Value>) { return std::vector<Value>{factor}; });
  EXPECT_EQ(p.floats(outside[0]), Floats{2});
}

TEST_F(Loops, AChoiceUsesValuesFromOutside) {
  const Type types[] = {a.type, {kFloat, {}}};
  const auto chosen = [&](bool predicate) {
    return build.conditional(
        build.constant(predicate ? 1 : 0, {DType::kBool, {}}),
        [&](std::span<const Value> none) {
          EXPECT_TRUE(none.empty());
          return std::vector<Value>{build.elementwise(Op::kAdd, {a, a}), zero};
        },
        [&](std::span<const Value>) {
          return std::vector<Value>{a, build.reduce(Op::kAdd, a, zero, {0, 1})};
        },
        types);
  };
  const auto yes = chosen(true);
  EXPECT_EQ(p.floats(yes[0]), (Floats{6, 2, 4, 12, 10, 8}));
  EXPECT_EQ(p.floats(yes[1]), Floats{0});
  const auto no = chosen(false);
  EXPECT_EQ(p.floats(no[0]), (Floats{3, 1, 2, 6, 5, 4}));
  EXPECT_EQ(p.floats(no[1]), Floats{21});
}

TEST_F(Loops, RegionOfReduceHasItsOwnConstants) {
  const auto count = [&](std::span<const Value> v) {
    const Value one = build.constant(1, {kFloat, {}});
    return std::vector<Value>{build.elementwise(Op::kAdd, {v[0], one})};
  };
  EXPECT_EQ(p.floats(build.reduce(std::vector{a}, std::vector{zero}, {1}, count)[0]),
            (Floats{3, 3}));
}

TEST_F(Loops, ReduceWindow) {
  Window w{{1, 2}, {1, 1}, {0, 1}, {0, 0}, {1, 1}, {1, 1}};
  const auto sum = [&] {
    return p.floats(
        build.reduce_window(std::vector{a}, std::vector{zero}, w, combine(build, Op::kAdd))[0]);
  };
  EXPECT_EQ(sum(), (Floats{3, 4, 3, 6, 11, 9}));
  w.low = {0, 0};
  w.window_dilations = {1, 2};
  EXPECT_EQ(sum(), (Floats{5, 10}));
  w.base_dilations = {1, 2};
  EXPECT_EQ(sum(), (Floats{4, 0, 3, 11, 0, 9}));
}

TEST_F(Loops, ReduceWindowOfTwo) {
  const Window w{{1, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}};
  const Value values[] = {a, build.iota(1, {DType::kI64, {2, 3}})};
  const Value inits[] = {build.constant(-1e30, {kFloat, {}}), build.constant(0, {DType::kI64, {}})};
  const auto data = p.run(build.reduce_window(values, inits, w, greatest(build)));
  EXPECT_EQ(values_of<float>(data[0]), (Floats{3, 2, 6, 5}));
  EXPECT_EQ(values_of<int64_t>(data[1]), (Longs{0, 2, 0, 1}));
}

TEST_F(Loops, ReduceWindowOfNothing) {
  const Window w{{1, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}};
  for (const Dims& dims : {Dims{0, 3}, Dims{2, 0}, Dims{2, 1}}) {
    const Value v = build.constant(1, {kFloat, dims});
    EXPECT_EQ(p.floats(build.reduce_window(std::vector{v}, std::vector{zero}, w,
                                           combine(build, Op::kAdd))[0]),
              Floats{});
  }
}

TEST_F(Loops, SelectAndScatter) {
  const Window w{{1, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}};
  const Value source = p.floats({2, 2}, {10, 20, 30, 40});
  EXPECT_EQ(p.floats(build.select_and_scatter(a, source, zero, w, compared(build, Direction::kGe),
                                              combine(build, Op::kAdd))),
            (Floats{10, 0, 20, 30, 40, 0}));
}

TEST_F(Loops, SelectAndScatterWithPadding) {
  const Window w{{1, 2}, {1, 2}, {0, 1}, {0, 0}, {1, 1}, {1, 1}};
  const Value source = p.floats({2, 2}, {10, 20, 30, 40});
  EXPECT_EQ(p.floats(build.select_and_scatter(a, source, zero, w, compared(build, Direction::kGe),
                                              combine(build, Op::kAdd))),
            (Floats{10, 0, 20, 30, 40, 0}));
  const Value nothing = p.floats({0, 2}, {});
  const Value empty = p.floats({0, 3}, {});
  EXPECT_EQ(
      p.floats(build.select_and_scatter(empty, nothing, zero, w, compared(build, Direction::kGe),
                                        combine(build, Op::kAdd))),
      Floats{});
}

TEST_F(Loops, Sort) {
  const auto data = p.run(build.sort(std::vector{a, build.iota(1, {DType::kI64, {2, 3}})}, 1, true,
                                     compared(build, Direction::kLt)));
  EXPECT_EQ(values_of<float>(data[0]), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values_of<int64_t>(data[1]), (Longs{1, 2, 0, 2, 1, 0}));
  EXPECT_EQ(p.floats(build.sort(std::vector{a}, 0, false, compared(build, Direction::kGt))[0]),
            (Floats{6, 5, 4, 3, 1, 2}));
  for (const Dims& dims : {Dims{0, 3}, Dims{3, 0}}) {
    const Value empty = build.constant(0, {kFloat, dims});
    EXPECT_EQ(p.floats(build.sort(std::vector{empty}, 1, true, compared(build, Direction::kLt))[0]),
              Floats{});
  }
}

TEST_F(Loops, NestedRegions) {
  // The sum of the first n squares, the square by a loop of additions.
  const Type integer{DType::kI64, {}};
  const auto positive = [&](std::span<const Value> v) {
    return std::vector<Value>{build.compare(Direction::kGt, v[1], build.constant(0, integer))};
  };
  const Value init[] = {build.constant(0, integer), p.longs({}, {4})};
  const auto result = build.while_loop(init, positive, [&](std::span<const Value> outer) {
    const Value n = outer[1];
    const Value one = build.constant(1, integer);
    const Value start[] = {outer[0], n};
    const auto square = build.while_loop(start, positive, [&](std::span<const Value> v) {
      return std::vector<Value>{build.elementwise(Op::kAdd, {v[0], n}),
                                build.elementwise(Op::kSubtract, {v[1], one})};
    });
    return std::vector<Value>{square[0], build.elementwise(Op::kSubtract, {n, one})};
  });
  EXPECT_EQ(p.longs(result[0]), Longs{30});
}

TEST_F(Loops, WhileOverTensors) {
  const Value init[] = {build.constant(0, {DType::kI64, {}}), a};
  const auto result = build.while_loop(
      init,
      [&](std::span<const Value> v) {
        return std::vector<Value>{
            build.compare(Direction::kLt, v[0], build.constant(2, {DType::kI64, {}}))};
      },
      [&](std::span<const Value> v) {
        return std::vector<Value>{
            build.elementwise(Op::kAdd, {v[0], build.constant(1, {DType::kI64, {}})}),
            build.elementwise(Op::kAdd, {v[1], v[1]})};
      });
  EXPECT_EQ(p.floats(result[1]), (Floats{12, 4, 8, 24, 20, 16}));
}

}  // namespace
}  // namespace torch_pjrt::hlo
