// The text itself, and what is refused.
#include <gtest/gtest.h>

#include "base/error.h"
#include "hlo/builder.h"

namespace torch_pjrt::hlo {
namespace {

constexpr DType kFloat = DType::kF32;

struct Text : testing::Test {
  Builder build{"HIGHEST"};
  Value a = build.argument({kFloat, {2, 3}}, "{tf.aliasing_output = 0 : i32}");
  Value b = build.argument({kFloat, {}});

  size_t statements() const {
    const std::string text = build.module({});
    size_t count = 0;
    for (size_t at = 0; (at = text.find("\"stablehlo.", at)) != std::string::npos; ++at) ++count;
    return count;
  }
};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInternal);
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST_F(Text, Module) {
  const Value sum = build.reduce(Op::kAdd, a, b, {1});
  const Value results[] = {sum, a};
  EXPECT_EQ(build.module(results),
            R"(module @program {
  func.func public @main(%a0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %a1: tensor<f32>) -> (tensor<2xf32>, tensor<2x3xf32>) {
    %3 = "stablehlo.reduce"(%a0, %a1) ({
    ^bb0(%0: tensor<f32>, %1: tensor<f32>):
      %2 = "stablehlo.add"(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%2) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    return %3, %a0 : tensor<2xf32>, tensor<2x3xf32>
  }
}
)");
}

TEST_F(Text, EqualStatementsAreOne) {
  EXPECT_EQ(build.elementwise(Op::kAdd, {a, a}).id, build.elementwise(Op::kAdd, {a, a}).id);
  EXPECT_EQ(build.constant(1, {kFloat, {}}).id, build.constant(1.0, {kFloat, {}}).id);
  EXPECT_EQ(build.constant(0.1, {kFloat, {}}).id, build.constant(0.1f, {kFloat, {}}).id);
  EXPECT_NE(build.constant(0.0, {kFloat, {}}).id, build.constant(-0.0, {kFloat, {}}).id);
  EXPECT_EQ(build.reduce(Op::kAdd, a, b, {1}).id, build.reduce(Op::kAdd, a, b, {1}).id);
  EXPECT_EQ(build.reduce(Op::kAdd, a, b, {0, 1}).id, build.reduce(Op::kAdd, a, b, {1, 0}).id);
  EXPECT_NE(build.reduce(Op::kAdd, a, b, {1}).id, build.reduce(Op::kMaximum, a, b, {1}).id);
}

TEST_F(Text, RegionsThatUseDifferentOuterValuesDiffer) {
  const Value c = build.elementwise(Op::kNegate, {b});
  const Value d = build.elementwise(Op::kAbs, {b});
  const auto with = [&](const Value& outer) {
    return build
        .while_loop(
            std::vector{b},
            [&](std::span<const Value> v) {
              return std::vector<Value>{build.compare(Direction::kLt, v[0], outer)};
            },
            [&](std::span<const Value> v) {
              return std::vector<Value>{build.elementwise(Op::kAdd, {v[0], outer})};
            })[0]
        .id;
  };
  EXPECT_NE(with(c), with(d));
  EXPECT_EQ(with(c), with(c));
}

TEST_F(Text, InnerStatementsAreNotSeenOutside) {
  const auto body = [&](std::span<const Value> v) {
    return std::vector<Value>{build.elementwise(Op::kAdd, {v[0], build.constant(5, {kFloat, {}})})};
  };
  build.reduce(std::vector{a}, std::vector{b}, {1}, body);
  const size_t before = statements();
  build.constant(5, {kFloat, {}});
  EXPECT_EQ(statements(), before + 1);
}

TEST_F(Text, NoStatementWhereNothingChanges) {
  for (const Value& v : {build.broadcast(a, {2, 3}, {0, 1}), build.reshape(a, {2, 3}),
                         build.transpose(a, {0, 1}), build.slice(a, {0, 0}, {2, 3}, {1, 1}),
                         build.convert(a, kFloat), build.bitcast_convert(a, kFloat),
                         build.reduce(Op::kAdd, a, b, {}), build.pad(a, b, {0, 0}, {0, 0}, {0, 0}),
                         build.concatenate(std::vector{a}, 0), build.reverse(a, {})}) {
    EXPECT_EQ(v.id, a.id);
  }
  EXPECT_EQ(statements(), 0u);
}

TEST_F(Text, Literals) {
  const auto has = [&](const std::string& text) {
    return build.module({}).find("dense<" + text + ">") != std::string::npos;
  };
  build.constant(1e20, {DType::kF64, {}});
  EXPECT_TRUE(has("1.0e+20"));
  build.constant(0.1, {kFloat, {}});
  EXPECT_TRUE(has("0.1"));
  build.constant(1.0 / 0.0, {DType::kBF16, {}});
  EXPECT_TRUE(has("0x7F80"));
}

TEST_F(Text, ErrorsNameOpAndTypes) {
  const std::string text = error_of([&] { build.elementwise(Op::kAdd, {a, b}); });
  EXPECT_NE(text.find("stablehlo.add(f32[2,3], f32[])"), std::string::npos) << text;
}

TEST_F(Text, WhatIsRefused) {
  const Value i = build.argument({DType::kI64, {}});
  const Value flag = build.argument({DType::kBool, {2, 3}});
  const std::function<void()> actions[] = {
      [&] { build.elementwise(Op::kAdd, {a}); },
      [&] { build.elementwise(Op::kSubtract, {flag, flag}); },
      [&] { build.elementwise(Op::kSine, {i}); },
      [&] { build.elementwise(Op::kSelect, {a, a, a}); },
      [&] { build.elementwise(Op::kNegate, {Value{}}); },
      [&] { build.compare(Direction::kEq, a, b); },
      [&] { build.bitcast_convert(a, DType::kI64); },
      [&] { build.constant(0.5, {DType::kI64, {}}); },
      [&] { build.constant(0x1p63, {DType::kI64, {}}); },
      [&] { build.constant(256, {DType::kU8, {}}); },
      [&] { build.constant(-1, {DType::kU8, {}}); },
      [&] { build.constant(128, {DType::kI8, {}}); },
      [&] { build.constant(2, {DType::kBool, {}}); },
      [&] { build.constant(1, {kFloat, {-1}}); },
      [&] { build.iota(1, {kFloat, {3}}); },
      [&] { build.broadcast(a, {2, 4}, {0, 1}); },
      [&] { build.broadcast(a, {3, 2}, {1, 0}); },
      [&] { build.reshape(a, {7}); },
      [&] { build.transpose(a, {0, 0}); },
      [&] { build.slice(a, {0, 0}, {2, 4}, {1, 1}); },
      [&] { build.dynamic_slice(a, std::vector{i}, {1, 1}); },
      [&] { build.dynamic_slice(a, std::vector{b, b}, {1, 1}); },
      [&] { build.dynamic_update_slice(b, a, {}); },
      [&] { build.pad(a, b, {-3, 0}, {0, 0}, {0, 0}); },
      [&] { build.concatenate(std::vector{a, b}, 0); },
      [&] { build.concatenate({}, 0); },
      [&] { build.reverse(a, {2}); },
      [&] { build.dot_general(a, a, {}, {}, {0}, {1}, kFloat); },
      [&] { build.convolution(a, a, {0, 0, {}, 0, 1, {}, 0, 1, {}, {}, {}, {}, {}, {}}, kFloat); },
      [&] { build.gather(a, i, {{0}, {0}, {}, {}, {0}, 0, {2, 3}}); },
      [&] { build.gather(a, b, {{0}, {0}, {}, {}, {0}, 0, {1, 3}}); },
      [&] { build.reduce(Op::kAdd, a, a, {1}); },
      [&] { build.reduce(Op::kAdd, a, b, {2}); },
      [&] { build.reduce(Op::kIsFinite, a, b, {1}); },
      [&] {
        build.reduce(std::vector{a}, std::vector{b}, {1},
                     [&](std::span<const Value>) { return std::vector<Value>{b}; });
      },
      [&] {
        build.reduce(std::vector{a}, std::vector{b}, {1}, [&](std::span<const Value> v) {
          return std::vector<Value>{build.elementwise(Op::kAdd, {v[0], b})};
        });
      },
      [&] { build.sort({}, 0, true, {}); },
      [&] {
        build.while_loop(
            std::vector{a}, [](auto v) { return std::vector<Value>{v[0]}; },
            [](auto v) { return std::vector<Value>{v[0]}; });
      },
  };
  for (size_t k = 0; k < std::size(actions); ++k) {
    SCOPED_TRACE(k);
    EXPECT_NE(error_of(actions[k]), "");
  }
}

}  // namespace
}  // namespace torch_pjrt::hlo
