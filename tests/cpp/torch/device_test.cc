// The lazy device without Python, on the fake plugin: storages, views, what enters a program, what
// makes two programs one, and whose memory is donated. Values are no concern: the plugin executes
// nothing.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "torch/array.h"
#include "torch/pending_program.h"
#include "torch/register.h"
#include "torch/run.h"
#include "torch/runtime.h"
#include "torch/signature.h"
#include "torch/storage.h"

namespace torch_pjrt::lazy {
namespace {

// An op on tensors of equal sizes, whose result is like the first.
Traced trace(const std::string& op, bool, const std::vector<TraceArgument>& arguments) {
  Traced traced;
  traced.direct = true;
  Graph& graph = traced.graph;
  std::vector<NamedArg> args;
  SymType result;
  const char* names[] = {"self", "other", "alpha"};
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (const auto* tensor = std::get_if<Geometry>(&arguments[i].v)) {
      const int32_t at = graph.add_tensor_input("", tensor->sym_type());
      if (i == 0) result = graph.inputs[at].type;
      args.push_back({names[i], {ValueRef{graph.inputs[at].value}}});
    } else {
      const auto* number = std::get_if<int64_t>(&arguments[i].v);
      const Number value =
          number ? Number::of_int(*number) : Number::of_float(std::get<double>(arguments[i].v));
      const ScalarKind kind = number ? ScalarKind::kInt : ScalarKind::kFloat;
      args.push_back({names[i], {graph.add_scalar(Scalar::constant(kind, value))}});
    }
  }
  Output output;
  output.kind = Output::Kind::kValue;
  output.value = graph.add_node(op, std::move(args), {result}, "");
  output.type = result;
  graph.outputs.push_back(output);
  return traced;
}

class DeviceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TORCH_PJRT_CACHE", "0", 1);
    Host host;
    host.plugin = [] { return std::string(FAKE_PLUGIN); };
    host.trace = trace;
    host.warn = [](const std::string&, const std::string&) {};
    host.lock = [] { return std::make_unique<run::NoLock>(); };
    ASSERT_TRUE(register_device(std::move(host)));
  }
  void SetUp() override {
    run_all();
    aten::runtime().stats().reset();
  }

  static at::Tensor tensor(at::IntArrayRef sizes) {
    return at::zeros(sizes).to(at::Device(kDevice, 0));
  }
  static int64_t executions() { return aten::runtime().stats().snapshot().executions; }
  static int64_t compiles() { return aten::runtime().stats().snapshot().compiles; }
  static bool is_pending(const at::Tensor& t) {
    const std::lock_guard lock(mutex());
    const Value& value = storage_of(t).value();
    return value && value.node->is_pending();
  }
};

TEST_F(DeviceTest, OpsArePendingUntilTheyAreRead) {
  const at::Tensor x = tensor({3, 4});
  const at::Tensor y = x.add(x).mul(x);
  EXPECT_TRUE(is_pending(y));
  EXPECT_EQ(executions(), 0);
  EXPECT_EQ(y.cpu().sizes(), at::IntArrayRef({3, 4}));
  EXPECT_FALSE(is_pending(y));
  EXPECT_EQ(executions(), 1);
  y.cpu();
  run_all();
  EXPECT_EQ(executions(), 1);
}

TEST_F(DeviceTest, ViewsShareTheirStorage) {
  const at::Tensor x = tensor({3, 4});
  const at::Tensor view = x.t().slice(0, 1, 3);
  EXPECT_TRUE(view.is_alias_of(x));
  view.add_(1);
  EXPECT_TRUE(is_pending(x));
  EXPECT_EQ(view.strides(), at::IntArrayRef({1, 4}));
  EXPECT_THROW(x.expand({2, 3, 4}).add_(1), c10::Error);
  EXPECT_THROW(x.data_ptr(), c10::Error);
}

TEST_F(DeviceTest, WhatIsNotNeededStaysPending) {
  const at::Tensor x = tensor({2});
  const at::Tensor needed = x.add(x);
  const at::Tensor with_it = needed.mul(x);
  const at::Tensor apart = x.mul(x);
  needed.cpu();
  EXPECT_FALSE(is_pending(with_it));
  EXPECT_TRUE(is_pending(apart));
  EXPECT_EQ(executions(), 1);
}

TEST_F(DeviceTest, NumbersAreNoPartOfAProgram) {
  const at::Tensor x = tensor({5});
  for (const double rate : {0.5, 0.25, 3.0}) x.mul(rate).cpu();
  EXPECT_EQ(compiles(), 1);
  x.mul(1.0).cpu();  // one is of another class
  EXPECT_EQ(compiles(), 2);
}

TEST_F(DeviceTest, TheOrderOfLeavesIsAPartOfAProgram) {
  const at::Tensor x = tensor({7});
  const at::Tensor y = tensor({7});
  x.sub(y).cpu();
  EXPECT_EQ(compiles(), 1);
  y.sub(x).cpu();  // the same, of other leaves
  EXPECT_EQ(compiles(), 1);
  x.sub(x).cpu();  // one leaf, twice
  EXPECT_EQ(compiles(), 2);
  x.sub(y).sub(x).cpu();
  x.sub(y).sub(y).cpu();
  EXPECT_EQ(compiles(), 4);
}

TEST_F(DeviceTest, WhichValuesAreKeptIsAPartOfAProgram) {
  const at::Tensor x = tensor({9});
  at::Tensor y = x.add(x);
  y = y.mul(x);
  y.cpu();
  const at::Tensor middle = x.add(x);
  middle.mul(x).cpu();
  EXPECT_EQ(compiles(), 2);
  EXPECT_FALSE(is_pending(middle));
}

TEST_F(DeviceTest, AWrappedNumberIsNoTensor) {
  const at::Tensor x = tensor({11}).to(at::kInt);
  const at::Tensor number = tensor({}).to(at::kInt);
  run_all();
  aten::runtime().stats().reset();
  x.mul(3).cpu();
  EXPECT_EQ(compiles(), 1);
  x.mul(number).cpu();
  EXPECT_EQ(compiles(), 2);
  x.mul(5).cpu();
  EXPECT_EQ(compiles(), 2);
}

TEST_F(DeviceTest, AReplacedValueIsDonated) {
  const at::Tensor x = tensor({1 << 16});
  run_all();
  const auto step = [&] {
    x.mul_(0.5);
    run_all();
  };
  step();
  reset_peak_memory();
  const int64_t before = memory().now;
  step();
  EXPECT_EQ(memory().now, before);
  EXPECT_EQ(memory().peak, before);
  const at::Tensor kept = x.mul(2.5);  // reads the old value, in another program
  run_all();
  const at::Tensor alias = x.clone();
  step();
  EXPECT_GT(memory().peak, before);
  EXPECT_NE(alias.cpu().numel(), 0);
}

TEST_F(DeviceTest, PlacesOfViewsBecomeValues) {
  const at::Tensor x = tensor({4, 40});
  for (int64_t k = 0; k < 20; ++k) {
    x.select(1, k).mul(2.5).cpu();
    x.select(1, k).mul_(2.5);
    run_all();
  }
  EXPECT_LE(compiles(), 2 * (4 + 1));
}

TEST_F(DeviceTest, AThreadRunsItsOwn) {
  const at::Tensor x = tensor({13});
  run_all();
  const at::Tensor mine = x.add(x);
  at::Tensor others;
  std::thread([&] { others = x.mul(x); }).join();
  run_all();
  EXPECT_FALSE(is_pending(mine));
  EXPECT_TRUE(is_pending(others));
  others.cpu();
  EXPECT_EQ(executions(), 2);
}

TEST_F(DeviceTest, ThreadsRecordAndReadSharedValues) {
  const at::Tensor x = tensor({17});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        const at::Tensor y = x.add(x).mul(0.5);
        if (k % 3 == 0) run_all();
        y.cpu();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_LE(compiles(), 2);
}

TEST_F(DeviceTest, ALongChainIsCut) {
  at::Tensor x = tensor({3});
  for (int k = 0; k < 5000; ++k) x = x.add(x);
  EXPECT_GE(executions(), 2);
  x.cpu();
}

TEST_F(DeviceTest, StoragesWithoutElements) {
  const at::Tensor x = tensor({0, 3});
  EXPECT_EQ(x.add(x).cpu().sizes(), at::IntArrayRef({0, 3}));
  at::Tensor y = at::empty({2}, at::Device(kDevice, 0));
  y.resize_({6});
  EXPECT_EQ(y.cpu().numel(), 6);
  y.set_(tensor({4}));
  EXPECT_EQ(y.mul(y).cpu().numel(), 4);
}

}  // namespace
}  // namespace torch_pjrt::lazy
