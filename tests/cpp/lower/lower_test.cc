#include "lower/lower.h"

#include <gtest/gtest.h>

#include <map>

#include "error_of.h"

namespace torch_pjrt::lower {
namespace {

using ArgumentKind = ProgramArgument::Kind;

// A graph of f32 tensors, made step by step.
class LowerTest : public testing::Test {
 protected:
  static SymType type(Dims dims, DType dtype = DType::kF32) {
    SymType t{dtype, {}, {}, 0};
    for (const int64_t d : dims) t.dims.emplace_back(d);
    for (const int64_t s : contiguous_strides(dims)) t.strides.emplace_back(s);
    return t;
  }

  // A tensor input that lies in memory in that order, row-major by default.
  ValueId input(const SymType& t, Order order = {}) {
    const int32_t i = graph_.add_tensor_input("x", t);
    if (order.empty()) order = row_major(static_cast<int64_t>(t.dims.size()));
    signature_.input_orders.push_back(std::move(order));
    return graph_.inputs[i].value;
  }
  ValueId node(const std::string& op, std::vector<NamedArg> args, const SymType& t) {
    return graph_.add_node(op, std::move(args), {t}, "model.py:7");
  }
  ValueId add(ValueId a, ValueId b, const SymType& t, double alpha = 1) {
    const Slot slot = scalar(alpha);
    return node("aten::add.Tensor",
                {{"self", {ValueRef{a}}}, {"other", {ValueRef{b}}}, {"alpha", {slot}}}, t);
  }
  ValueId negate(ValueId a, const SymType& t) {
    return node("aten::neg", {{"self", {ValueRef{a}}}}, t);
  }
  Slot scalar(double v) {
    return graph_.add_scalar(Scalar::constant(ScalarKind::kFloat, Number::of_float(v)));
  }
  void output(ValueId value, const SymType& t) {
    graph_.outputs.push_back({Output::Kind::kValue, value, -1, t, {}});
  }

  Program lowered(const Options& options = {}) { return lower(graph_, signature_, options); }
  std::string error() {
    return error_of([&] { lowered(); });
  }
  // Kind and index of each argument, e.g. "i0 s0 o0" for input, scalar and output memory.
  static std::string arguments(const Program& program) {
    std::string text;
    for (const ProgramArgument& a : program.arguments) {
      text += text.empty() ? "" : " ";
      const bool is_memory = a.kind == ArgumentKind::kOutputMemory;
      text += str("imsdo"[static_cast<int>(a.kind)], is_memory ? a.result : a.index);
    }
    return text;
  }
  static size_t count(const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  }

  Graph graph_;
  Signature signature_;
};

TEST_F(LowerTest, ResultsThatNothingReadsAreLeftOut) {
  const SymType image = type({1, 1, 4, 4});
  const ValueId x = input(image);
  const auto sizes = [](int64_t n) { return ArgList{{Size{n}}, {Size{n}}}; };
  const std::vector<NamedArg> args = {{"self", {ValueRef{x}}},  {"kernel_size", {sizes(2)}},
                                      {"stride", {sizes(2)}},   {"padding", {sizes(0)}},
                                      {"dilation", {sizes(1)}}, {"ceil_mode", {false}}};
  const SymType small = type({1, 1, 2, 2});
  const SymType indices = type({1, 1, 2, 2}, DType::kI64);
  const ValueId maxima =
      graph_.add_node("aten::max_pool2d_with_indices", args, {small, indices}, "model.py:7");
  output(maxima, small);
  EXPECT_EQ(count(lowered().text, "4x4xi64>"), 0);
  output(maxima + 1, indices);
  EXPECT_GT(count(lowered().text, "4x4xi64>"), 0);
}

TEST_F(LowerTest, ArgumentsComeInTheOrderOfTheirFirstUse) {
  const SymType t = type({2, 3});
  const ValueId x = input(t);
  input(t);  // unused: no argument
  const ValueId z = input(t);
  const ValueId minus_z = negate(z, t);
  const ValueId sum = add(minus_z, negate(x, t), t, 2.5);
  output(add(sum, z, t, 3.5), t);
  const Program program = lowered();
  EXPECT_EQ(arguments(program), "i2 i0 s0 s1 o0");
  for (const ProgramArgument& a : program.arguments) {
    const bool is_scalar = a.kind == ArgumentKind::kScalar;
    EXPECT_EQ(a.type, is_scalar ? (Type{DType::kF64, {}}) : (Type{DType::kF32, {2, 3}}));
  }
  for (size_t k = 0; k < program.arguments.size(); ++k) {
    EXPECT_EQ(count(program.text, str("%a", k, ": ")), 1) << "an argument of @main";
  }
}

TEST_F(LowerTest, AValueIsAnArgumentAndItsNumberIsNotInTheText) {
  const SymType t = type({4});
  const ValueId x = input(t);
  output(add(x, x, t, 0.12345), t);
  const Program program = lowered();
  EXPECT_EQ(arguments(program), "i0 s0 o0");
  EXPECT_EQ(program.text.find("0.12345"), std::string::npos);
  graph_.scalars[0] = Scalar::constant(ScalarKind::kFloat, Number::of_float(7.25));
  EXPECT_EQ(lowered().text, program.text);
}

TEST_F(LowerTest, OneSlotIsOneArgument) {
  const SymType t = type({4});
  const ValueId x = input(t);
  const Slot slot = scalar(2.5);
  ValueId v = x;
  for (int k = 0; k < 3; ++k) {
    v = node("aten::mul.Scalar", {{"self", {ValueRef{v}}}, {"other", {slot}}}, t);
  }
  output(v, t);
  EXPECT_EQ(arguments(lowered()), "i0 s0 o0");
}

TEST_F(LowerTest, KindsOfScalarsHaveTheirTypes) {
  const SymType t = type({4}, DType::kF64);
  const ValueId x = input(t);
  ValueId v = x;
  for (const Scalar& s : {Scalar::constant(ScalarKind::kBool, Number::of_int(1)),
                          Scalar::constant(ScalarKind::kInt, Number::of_int(7)),
                          Scalar::constant(ScalarKind::kFloat, Number::of_float(2.5))}) {
    v = node("aten::mul.Scalar", {{"self", {ValueRef{v}}}, {"other", {graph_.add_scalar(s)}}}, t);
  }
  output(v, t);
  const Program program = lowered();
  std::map<int32_t, DType> types;
  for (const ProgramArgument& a : program.arguments) {
    if (a.kind == ArgumentKind::kScalar) types[a.index] = a.type.dtype;
  }
  EXPECT_EQ(types,
            (std::map<int32_t, DType>{{0, DType::kBool}, {1, DType::kI64}, {2, DType::kF64}}));
}

TEST_F(LowerTest, OutputMemoryIsDonatedPerResult) {
  const SymType t = type({4});
  const ValueId x = input(t);
  const ValueId y = negate(x, t);
  output(y, t);
  graph_.outputs.push_back({});  // None
  output(y, t);
  const Program program = lowered();
  EXPECT_EQ(arguments(program), "i0 o0 o1");
  EXPECT_EQ(count(program.text, "{tf.aliasing_output = 0 : i32}"), 1);
  EXPECT_EQ(count(program.text, "{tf.aliasing_output = 1 : i32}"), 1);
  ASSERT_EQ(program.results.size(), 2);
  EXPECT_EQ(program.results[0].index, 0);
  EXPECT_EQ(program.results[1].index, 2);
  Options options;
  options.donation = Donation::kNone;
  EXPECT_EQ(arguments(lowered(options)), "i0");
  EXPECT_EQ(count(lowered(options).text, "aliasing"), 0);
}

TEST_F(LowerTest, AnInputComesInItsMemorysOrder) {
  const SymType t = type({2, 3, 4, 5});
  const ValueId x = input(t, {0, 2, 3, 1});
  SymType out = t;
  out.strides = {60, 1, 15, 3};
  output(negate(x, t), out);
  const Program program = lowered();
  EXPECT_EQ(program.arguments[0].type, (Type{DType::kF32, {2, 4, 5, 3}}));
  ASSERT_EQ(program.results.size(), 1);
  EXPECT_EQ(program.results[0].type, (Type{DType::kF32, {2, 4, 5, 3}}));
  EXPECT_EQ(program.results[0].order, (Order{0, 2, 3, 1}));
  EXPECT_EQ(program.results[0].dims, (Dims{2, 3, 4, 5}));
  EXPECT_EQ(count(program.text, "stablehlo.transpose"), 0) << "neither end moves anything";
}

TEST_F(LowerTest, AnOutputEndsInItsStrides) {
  const SymType t = type({2, 3});
  const ValueId x = input(t);
  SymType out = t;
  out.strides = {1, 2};
  output(negate(x, t), out);
  const Program program = lowered();
  EXPECT_EQ(program.results[0].type, (Type{DType::kF32, {3, 2}}));
  EXPECT_EQ(program.results[0].order, (Order{1, 0}));
  EXPECT_EQ(count(program.text, "stablehlo.transpose"), 1);
}

TEST_F(LowerTest, AnExpandedOutputIsComputedOnce) {
  const SymType t = type({2, 3});
  const ValueId x = input(t);
  SymType out = t;
  out.strides = {0, 1};
  output(negate(x, t), out);
  const Program program = lowered();
  EXPECT_EQ(program.results[0].dims, (Dims{1, 3}));
  EXPECT_EQ(program.results[0].type, (Type{DType::kF32, {1, 3}}));
  EXPECT_EQ(program.arguments.back().type, (Type{DType::kF32, {1, 3}}));
}

TEST_F(LowerTest, AnOutputWithGapsIsComputedRowMajor) {
  const SymType t = type({2, 3});
  const ValueId x = input(t);
  SymType out = t;
  out.strides = {8, 2};
  output(negate(x, t), out);
  const Program program = lowered();
  EXPECT_EQ(program.results[0].order, (Order{0, 1}));
  EXPECT_EQ(program.results[0].dims, (Dims{2, 3}));
}

TEST_F(LowerTest, SizesComeFromTheSymbols) {
  const Size n = Size::symbolic(graph_.exprs.add_symbol("s0"), 99);
  const SymType t{DType::kF32, {n, 3}, {3, 1}, 0};
  const ValueId x = input(t);
  output(negate(x, t), t);
  for (const int64_t rows : {0, 1, 8}) {
    signature_.symbols = {rows};
    const Program program = lowered();
    EXPECT_EQ(program.arguments[0].type, (Type{DType::kF32, {rows, 3}}));
    EXPECT_EQ(program.results[0].type, (Type{DType::kF32, {rows, 3}}));
  }
}

TEST_F(LowerTest, ADerivedDimThatBecomesOneIsBroadcast) {
  const ExprId s = graph_.exprs.add_symbol("s0");
  const Size half =
      Size::symbolic(graph_.exprs.add(ExprOp::kFloorDiv, {s, graph_.exprs.add_int(2)}), 4);
  const SymType narrow{DType::kF32, {half}, {1}, 0};
  const SymType wide = type({4});
  const ValueId x = input(narrow);
  const ValueId y = input(wide);
  output(add(x, y, wide), wide);
  for (const auto& [symbol, size] : {std::pair(3, 1), std::pair(8, 4)}) {
    signature_.symbols = {symbol};
    const Program program = lowered();
    for (const ProgramArgument& a : program.arguments) {
      if (a.kind != ArgumentKind::kInput || a.index != 0) continue;
      EXPECT_EQ(a.type, (Type{DType::kF32, {size}}));
    }
    EXPECT_EQ(program.results[0].type, (Type{DType::kF32, {4}}));
  }
  signature_.symbols = {4};
  EXPECT_NE(error(), "") << "2 does not broadcast to 4";
}

TEST_F(LowerTest, TheTextIsDeterministic) {
  const SymType t = type({4});
  const ValueId x = input(t);
  output(add(add(x, x, t, 2), negate(x, t), t, 3), t);
  EXPECT_EQ(lowered().text, lowered().text);
}

TEST_F(LowerTest, PrecisionIsOfMatmuls) {
  const SymType t = type({4, 4});
  const ValueId x = input(t);
  output(node("aten::mm", {{"self", {ValueRef{x}}}, {"mat2", {ValueRef{x}}}}, t), t);
  Options options;
  options.precision = Precision::kDefault;
  EXPECT_GT(count(lowered(options).text, "DEFAULT"), 0);
  options.precision = Precision::kHighest;
  EXPECT_GT(count(lowered(options).text, "HIGHEST"), 0);
  EXPECT_EQ(count(lowered(options).text, "DEFAULT"), 0);
}

TEST_F(LowerTest, AnOpWithoutARuleNamesTheUsersLine) {
  const SymType t = type({4});
  output(node("aten::zzz", {{"self", {ValueRef{input(t)}}}}, t), t);
  EXPECT_EQ(error(),
            "unsupported: aten::zzz: there is no rule for this op\n  at: model.py:7\n  remedy: "
            "rewrite the line with other "
            "ops, or keep its function out of the compiled one by torch.compiler.disable");
}

TEST_F(LowerTest, AResultOfAnotherTypeNamesBoth) {
  const NamedArg self{"self", {ValueRef{input(type({4}))}}};
  output(node("aten::t", {self}, type({4}, DType::kF64)), type({4}, DType::kF64));
  EXPECT_EQ(error(), "internal: aten::t: the rule gives f32[4] where the graph says f64[4]");
}

TEST_F(LowerTest, AResultOfOtherDimsNamesBoth) {
  const ValueId x = input(type({2, 3}));
  const NamedArg self{"self", {ValueRef{x}}};
  output(node("aten::t", {self}, type({2, 3})), type({2, 3}));
  EXPECT_EQ(error(), "internal: aten::t: the rule gives f32[3,2] where the graph says f32[2,3]");
}

TEST_F(LowerTest, AWrongNumberOfResultsIsOurFault) {
  const SymType t = type({4});
  const ValueId x = input(t);
  const ValueId first = graph_.add_node("aten::neg", {{"self", {ValueRef{x}}}}, {t, t}, "");
  output(first + 1, t);
  EXPECT_EQ(error(), "internal: aten::neg: the rule gives 1 results for 2");
}

TEST_F(LowerTest, HalfPrecisionIsRoundedOnce) {
  const SymType t = type({4}, DType::kBF16);
  const ValueId x = input(t);
  output(add(x, x, t, 2.5), t);
  const Program program = lowered();
  EXPECT_EQ(program.results[0].type.dtype, DType::kBF16);
  EXPECT_GT(count(program.text, "tensor<4xf32>"), 0);
  EXPECT_EQ(count(program.text, "-> tensor<4xbf16>"), 1) << "one conversion";
}

TEST_F(LowerTest, AnOrderIsNeededForEachInput) {
  const SymType t = type({4});
  output(negate(input(t), t), t);
  signature_.input_orders.clear();
  EXPECT_EQ(error(), "internal: lower: 0 input orders for 1 inputs");
}

}  // namespace
}  // namespace torch_pjrt::lower
