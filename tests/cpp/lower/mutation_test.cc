// What a program does to its inputs' memory, and the checks that it depends on.
#include <gtest/gtest.h>

#include "lower/lower.h"

namespace torch_pjrt::lower {
namespace {

using ArgumentKind = ProgramArgument::Kind;
using ResultKind = ProgramResult::Kind;

SymType type_of(const Dims& dims, DType dtype = DType::kF32) {
  SymType t{dtype, {}, {}, 0};
  for (const int64_t d : dims) t.dims.emplace_back(d);
  for (const int64_t s : contiguous_strides(dims)) t.strides.emplace_back(s);
  return t;
}

class LowerMutationTest : public testing::Test {
 protected:
  ValueId input(const Dims& dims, DType dtype = DType::kF32, Order order = {}) {
    const int32_t i = graph_.add_tensor_input("x", type_of(dims, dtype));
    if (order.empty()) order = row_major(static_cast<int64_t>(dims.size()));
    signature_.input_orders.push_back(order);
    return graph_.inputs[i].value;
  }
  ValueId node(const std::string& op, std::vector<NamedArg> args, const SymType& type) {
    return graph_.add_node(op, std::move(args), {type}, "");
  }
  ValueId negated(ValueId v, const Dims& dims) {
    return node("aten::neg", {{"self", {ValueRef{v}}}}, type_of(dims));
  }
  // Its check reads `index`.
  ValueId gathered(ValueId self, ValueId index, const Dims& dims) {
    return node("aten::gather",
                {{"self", {ValueRef{self}}}, {"dim", {Size(0)}}, {"index", {ValueRef{index}}}},
                type_of(dims));
  }
  // self with `src` written over its elements from `offset` on.
  ValueId overwritten(ValueId self, ValueId src, int64_t size, int64_t offset, int64_t n) {
    return node("aten::as_strided_scatter",
                {{"self", {ValueRef{self}}},
                 {"src", {ValueRef{src}}},
                 {"size", {ArgList{{Size(n)}}}},
                 {"stride", {ArgList{{Size(1)}}}},
                 {"storage_offset", {Size(offset)}},
                 {"self_stride", {ArgList{{Size(1)}}}},
                 {"self_offset", {Size(0)}}},
                type_of({size}));
  }
  void output(ValueId value, const Dims& dims) {
    Output o;
    o.kind = Output::Kind::kValue;
    o.value = value;
    o.type = type_of(dims);
    graph_.outputs.push_back(o);
  }
  Program lowered(bool donate = true) {
    Options options;
    if (!donate) options.donation = Donation::kNone;
    return lower(graph_, signature_, options);
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  Graph graph_;
  Signature signature_;
};

TEST_F(LowerMutationTest, AMutatedInputIsDonatedToItsNewValue) {
  const ValueId x = input({4});
  output(negated(x, {4}), {4});
  graph_.add_mutation({0, negated(negated(x, {4}), {4})});
  const Program program = lowered();
  ASSERT_EQ(program.results.size(), 2);
  EXPECT_EQ(program.results[1].kind, ResultKind::kMutation);
  ASSERT_EQ(program.arguments.size(), 2);
  EXPECT_EQ(program.arguments[0].kind, ArgumentKind::kMutatedInput);
  EXPECT_EQ(program.arguments[0].result, 1);
  EXPECT_EQ(program.arguments[1].kind, ArgumentKind::kOutputMemory);
  EXPECT_TRUE(has(program.text, "tensor<4xf32> {tf.aliasing_output = 1 : i32}"));
  EXPECT_TRUE(program.problems.empty());
}

TEST_F(LowerMutationTest, AnInputThatIsOnlyWrittenIsAnArgument) {
  input({4});
  const ValueId y = input({4});
  graph_.add_mutation({0, negated(y, {4})});
  EXPECT_EQ(lowered().arguments.size(), 2);
  const Program program = lowered(false);
  ASSERT_EQ(program.arguments.size(), 1) << "without donation its memory is of no use";
  EXPECT_EQ(program.arguments[0].kind, ArgumentKind::kInput);
  EXPECT_FALSE(has(program.text, "tf.aliasing_output"));
}

TEST_F(LowerMutationTest, TheNewValueIsInTheInputsOrder) {
  const ValueId x = input({2, 3}, DType::kF32, {1, 0});
  const ValueId y = input({2, 3});
  graph_.add_mutation({0, negated(y, {2, 3})});
  output(negated(x, {2, 3}), {2, 3});
  const Program program = lowered();
  EXPECT_EQ(program.results[1].order, (Order{1, 0}));
  EXPECT_EQ(program.results[1].type, (Type{DType::kF32, {3, 2}}));
}

TEST_F(LowerMutationTest, TheLastMutationOfAnInputCounts) {
  const ValueId x = input({4});
  graph_.add_mutation({0, negated(x, {4})});
  graph_.add_mutation({0, x});
  EXPECT_EQ(lowered().results.size(), 1);
}

TEST_F(LowerMutationTest, AFailedCheckKeepsTheOldValue) {
  const ValueId x = input({4});
  const ValueId i = input({2}, DType::kI64);
  graph_.add_mutation({0, negated(x, {4})});
  output(gathered(x, i, {2}), {2});
  const Program program = lowered();
  ASSERT_EQ(program.problems.size(), 1);
  EXPECT_EQ(program.problems[0].message, "index {} is out of bounds for dimension 0 with size 4");
  EXPECT_EQ(program.results.back().kind, ResultKind::kStatus);
  EXPECT_EQ(program.results.back().type, (Type{DType::kI64, {2}}));
  EXPECT_TRUE(has(program.text, "tensor<i1>, tensor<4xf32>")) << program.text;
}

TEST_F(LowerMutationTest, APartialWriteIsPermittedOrNot) {
  const ValueId x = input({64});
  const ValueId src = input({2});
  const ValueId i = input({2}, DType::kI64);
  graph_.add_mutation({0, overwritten(overwritten(x, src, 64, 3, 2), src, 64, 9, 2)});
  output(gathered(src, i, {2}), {2});
  const Program program = lowered();
  EXPECT_TRUE(has(program.text, "tensor<i1>, tensor<2xf32>")) << program.text;
  EXPECT_FALSE(has(program.text, "tensor<i1>, tensor<64xf32>")) << "the whole input is selected";
}

TEST_F(LowerMutationTest, AWriteThatACheckReadsIsNotPermittedButSelected) {
  const ValueId x = input({64});
  const ValueId src = input({2});
  const ValueId written = overwritten(x, src, 64, 3, 2);
  const ValueId index = node("aten::_to_copy",
                             {{"self", {ValueRef{written}}},
                              {"dtype", {DType::kI64}},
                              {"layout", {None()}},
                              {"device", {None()}},
                              {"pin_memory", {None()}},
                              {"non_blocking", {false}},
                              {"memory_format", {None()}}},
                             type_of({64}, DType::kI64));
  graph_.add_mutation({0, written});
  output(gathered(written, index, {64}), {64});
  EXPECT_TRUE(has(lowered().text, "tensor<i1>, tensor<64xf32>"));
}

TEST_F(LowerMutationTest, ADivisorThatIsKnownNeedsNoCheck) {
  const ValueId x = input({4}, DType::kI64);
  const SymType type = type_of({4}, DType::kI64);
  for (const int64_t divisor : {3, 0}) {
    const Slot slot =
        graph_.add_scalar(Scalar::constant(ScalarKind::kInt, Number::of_int(divisor)));
    node("aten::remainder.Scalar", {{"self", {ValueRef{x}}}, {"other", {slot}}}, type);
    EXPECT_EQ(lowered().problems.size(), divisor == 0 ? 1 : 0);
  }
}

}  // namespace
}  // namespace torch_pjrt::lower
