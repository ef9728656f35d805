// What a rule may ask of a Call, and what is refused.
#include <gtest/gtest.h>

#include "error_of.h"
#include "lower/lowering.h"

namespace torch_pjrt::lower {
namespace {

// One node with an argument of each kind, over x: f32[s0,3], y: i32[3] and z: f64[].
class CallTest : public testing::Test {
 protected:
  CallTest() {
    const ExprId s = graph_.exprs.add_symbol("s0");
    const Size rows = Size::symbolic(s, 9);
    graph_.add_tensor_input("x", {DType::kF32, {rows, 3}, {3, 1}, 0});
    graph_.add_tensor_input("y", {DType::kI32, {3}, {1}, 0});
    graph_.add_tensor_input("z", {DType::kF64, {}, {}, 0});
    signature_ = {{2}, {{1, 0}, {0}, {}}};
    const Slot value = graph_.add_scalar(Scalar::constant(ScalarKind::kInt, Number::of_int(-1)));
    graph_.add_node("aten::made_up",
                    {{"x", {ValueRef{0}}},
                     {"y", {ValueRef{1}}},
                     {"z", {ValueRef{2}}},
                     {"value", {value}},
                     {"none", {None{}}},
                     {"rows", {rows}},
                     {"last", {Size(-1)}},
                     {"flag", {true}},
                     {"number", {0.5}},
                     {"text", {std::string("tanh")}},
                     {"dims", {ArgList{{rows}, {Size(-1)}}}},
                     {"tensors", {ArgList{{ValueRef{0}}, {ValueRef{1}}}}},
                     {"holes", {ArgList{{None{}}, {ValueRef{1}}}}}},
                    {{DType::kF32, {rows, 3}, {3, 1}, 0}}, "model.py:7");
    state_.emplace(graph_, signature_, options_);
    call_.emplace(*state_, graph_.nodes[0]);
  }

  template <class Use>
  std::string error(const Use& use) {
    return error_of([&] { use(*call_); });
  }

  Graph graph_;
  Signature signature_;
  Options options_;
  std::optional<Lowering> state_;
  std::optional<Call> call_;
};

TEST_F(CallTest, Structure) {
  const Call& c = *call_;
  EXPECT_EQ(c.op(), "aten::made_up");
  EXPECT_EQ(c.num_results(), 1);
  EXPECT_EQ(c.result(), (Type{DType::kF32, {2, 3}}));
  EXPECT_TRUE(c.is_none("none"));
  EXPECT_FALSE(c.is_none("value"));
  EXPECT_TRUE(c.is_tensor("x") && c.is_tensor(0));
  EXPECT_TRUE(c.is_structure("rows") && c.is_structure("none"));
  EXPECT_FALSE(c.is_structure("value") || c.is_structure("x"));
  EXPECT_EQ(c.integer("rows"), 2) << "the call's size, not the hint";
  EXPECT_EQ(c.integer("flag"), 1);
  EXPECT_EQ(c.integer_or("none", 7), 7);
  EXPECT_EQ(c.integer_or("last", 7), -1);
  EXPECT_TRUE(c.flag("flag"));
  EXPECT_EQ(c.number("number"), 0.5);
  EXPECT_EQ(c.number("rows"), 2);
  EXPECT_EQ(c.string_or("text", "none"), "tanh");
  EXPECT_EQ(c.string_or("none", "none"), "none");
}

TEST_F(CallTest, AxesCountFromTheEnd) {
  const Call& c = *call_;
  EXPECT_EQ(c.axis("last", 3), 2);
  EXPECT_EQ(c.axis("last", 0), 0);
  EXPECT_EQ(c.axes("dims", 4), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(c.axes("none", 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(c.axes("last", 0), std::vector<int64_t>());
  EXPECT_EQ(c.integers("dims"), (std::vector<int64_t>{2, -1}));
  EXPECT_EQ(c.integers("last"), (std::vector<int64_t>{-1}));
  EXPECT_EQ(c.integers("none"), std::vector<int64_t>());
}

TEST_F(CallTest, AValueIsNoStructure) {
  const std::string refused =
      "internal: aten::made_up: the rule reads the value value as structure";
  EXPECT_EQ(error([](const Call& c) { c.attr("value"); }), refused);
  EXPECT_EQ(error([](const Call& c) { c.integer("value"); }), refused);
  EXPECT_EQ(error([](const Call& c) { c.number("value"); }), refused);
  EXPECT_EQ(error([](const Call& c) { c.flag("value"); }), refused);
  EXPECT_EQ(error([](const Call& c) { c.integers("value"); }), refused);
  EXPECT_EQ(error([](const Call& c) { c.axis("value", 2); }), refused);
  EXPECT_EQ(error([](const Call& c) { c.string_or("value", ""); }), refused);
  EXPECT_EQ(error([](const Call& c) { c.attr(3); }),
            "internal: aten::made_up: the rule reads the value #3 as structure");
}

TEST_F(CallTest, StructureIsNoValue) {
  for (const char* name : {"rows", "flag", "number", "none"}) {
    EXPECT_EQ(error([&](const Call& c) { c.scalar(name, DType::kF32); }),
              "internal: aten::made_up: " + std::string(name) + " is no tensor");
    EXPECT_EQ(error([&](const Call& c) { c.aligned(name); }),
              "internal: aten::made_up: an operand is neither tensor nor value");
    EXPECT_EQ(error([&](const Call& c) { c.dtype(name); }),
              "internal: aten::made_up: " + std::string(name) + " is neither tensor nor value");
  }
}

TEST_F(CallTest, AnArgumentOfAnotherKindIsOurFault) {
  EXPECT_EQ(error([](const Call& c) { c.attr("absent"); }),
            "internal: aten::made_up has no argument absent");
  EXPECT_EQ(error([](const Call& c) { c.attr(13); }),
            "internal: aten::made_up has no argument #13");
  EXPECT_EQ(error([](const Call& c) { c.flag("rows"); }),
            "internal: aten::made_up: rows is no bool");
  EXPECT_EQ(error([](const Call& c) { c.integer("text"); }),
            "internal: aten::made_up: text is no number");
  EXPECT_EQ(error([](const Call& c) { c.tensor("rows"); }),
            "internal: aten::made_up: rows is no tensor");
  EXPECT_EQ(error([](const Call& c) { c.tensors("x"); }), "internal: aten::made_up: x is no list");
  EXPECT_EQ(error([](const Call& c) { c.tensors("holes"); }),
            "internal: aten::made_up: holes holds a None");
  EXPECT_EQ(error([](const Call& c) { c.unsupported("no such mode"); }),
            "unsupported: aten::made_up: no such mode\n  at: model.py:7\n  remedy: rewrite the "
            "line with other "
            "ops, or keep its function out of the compiled one by torch.compiler.disable");
  EXPECT_EQ(error([](const Call& c) { c.unsupported("no such mode", "use another"); }),
            "unsupported: aten::made_up: no such mode\n  at: model.py:7\n  remedy: use another");
}

TEST_F(CallTest, Values) {
  const Call& c = *call_;
  EXPECT_EQ(c.scalar_class("value"), ScalarClass::kMinusOne);
  EXPECT_EQ(c.scalar_class("x"), ScalarClass::kOther);
  EXPECT_EQ(c.dtype("value"), DType::kI64);
  EXPECT_EQ(c.dtype("y"), DType::kI32);
  EXPECT_EQ(c.scalar("value", DType::kF32).value.type, (Type{DType::kF32, {}}));
  EXPECT_EQ(c.scalar("z", DType::kF32).value.type, (Type{DType::kF32, {}})) << "a 0-d tensor";
}

TEST_F(CallTest, TensorsInTheOrderAskedFor) {
  const Call& c = *call_;
  EXPECT_EQ(c.any_order("x").order, (Order{1, 0})) << "as its memory lies";
  EXPECT_EQ(c.any_order("x").value.type.dims, (Dims{3, 2}));
  EXPECT_EQ(c.any_order("x").dims(), (Dims{2, 3}));
  EXPECT_EQ(c.tensor("x").order, (Order{0, 1}));
  EXPECT_EQ(c.tensor("x").value.type.dims, (Dims{2, 3}));
  EXPECT_EQ(c.tensor("x", {1, 0}).value.type.dims, (Dims{3, 2}));
  EXPECT_EQ(c.tensors("tensors").size(), 2);
  const auto holes = c.optional_tensors("holes");
  EXPECT_FALSE(holes[0]);
  EXPECT_EQ(holes[1]->dims(), (Dims{3}));
}

TEST_F(CallTest, OperandsAreAlignedToTheResult) {
  const Call& c = *call_;
  EXPECT_EQ(c.compute_dtype(), DType::kF32) << "0-d f64 and the int count for less";
  for (const char* name : {"x", "y", "z", "value"}) {
    const Tensor t = c.aligned(name);
    EXPECT_EQ(t.order, (Order{1, 0})) << "the order of the largest operand: " << name;
    EXPECT_EQ(t.value.type, (Type{DType::kF32, {3, 2}})) << name;
  }
  EXPECT_EQ(c.aligned("y", DType::kI64).dtype(), DType::kI64);
  EXPECT_EQ(c.splat(1).value.type, (Type{DType::kF32, {3, 2}}));
  EXPECT_EQ(c.splat(1, DType::kBool).dtype(), DType::kBool);
}

TEST_F(CallTest, EmissionKeepsTheOrder) {
  const Call& c = *call_;
  const Tensor x = c.any_order("x");
  EXPECT_EQ(c.emit(Op::kNegate, {x}).order, (Order{1, 0}));
  const Tensor sum = c.reduce(Op::kAdd, x, 0, {0});
  EXPECT_EQ(sum.dims(), (Dims{3}));
  EXPECT_EQ(sum.order, (Order{0}));
  EXPECT_EQ(c.keep_dims(sum, {0}).dims(), (Dims{1, 3}));
  EXPECT_EQ(c.reduce(Op::kAdd, x, 0, {0, 1}).dims(), Dims());
  EXPECT_EQ(c.reduce(Op::kAdd, x, 0, {}).order, (Order{1, 0}));
  const Tensor wide = c.broadcast(x, {4, 2, 3});
  EXPECT_EQ(wide.dims(), (Dims{4, 2, 3}));
  EXPECT_EQ(wide.order, (Order{0, 2, 1}));
  EXPECT_EQ(c.reshape(x, {6}).order, (Order{0}));
  EXPECT_EQ(c.convert(x, DType::kI8).value.type, (Type{DType::kI8, {3, 2}}));
}

}  // namespace
}  // namespace torch_pjrt::lower
