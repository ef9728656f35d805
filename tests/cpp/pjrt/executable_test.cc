#include "pjrt/executable.h"

#include <numeric>
#include <thread>

#include "device_test.h"

namespace torch_pjrt::pjrt {
namespace {

TEST_P(DeviceTest, ExecutableTellsItsOutputs) {
  const auto executable = client().compile(
      module_text("%a: tensor<2x3xf32>, %b: tensor<i64>", "tensor<i64>, tensor<2x3xf32>",
                  "%0 = stablehlo.negate %a : tensor<2x3xf32>\n"
                  "    return %b, %0 : tensor<i64>, tensor<2x3xf32>"),
      {});
  EXPECT_EQ(executable->num_outputs(), 2u);
  EXPECT_EQ(executable->output_types(),
            (std::vector<Type>{{DType::kI64, {}}, {DType::kF32, {2, 3}}}));
  EXPECT_EQ(executable->flops(), computes() ? 6.0 : 0.0);
  EXPECT_TRUE(executable->code_size_bytes().has_value());
}

TEST_P(DeviceTest, ProgramRuns) {
  const HostArray memory(kVectorBytes);
  std::iota(memory.data<float>(), memory.data<float>() + 16, 0.0f);
  const Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy);
  const auto executable = client().compile(kNegate, {});
  const std::vector<Buffer> outputs = run(*executable, {&a});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].type(), kVector);
  EXPECT_NE(outputs[0].unsafe_pointer(), memory.data());
  EXPECT_FALSE(a.is_deleted());
  const std::vector<float> values = floats(outputs[0]);
  for (int i = 0; computes() && i < 16; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], -i);
}

TEST_P(DeviceTest, ASerializedProgramRuns) {
  const std::string bytes = client().compile(kNegate, {})->serialize();
  const auto executable = client().deserialize(bytes);
  const HostArray memory(kVectorBytes);
  memory.fill(16, 3.0f);
  const Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy);
  const std::vector<Buffer> outputs = run(*executable, {&a});
  ASSERT_EQ(outputs.size(), 1u);
  const std::vector<float> values = floats(outputs[0]);
  for (int i = 0; computes() && i < 16; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], -3.0f);
}

TEST_P(DeviceTest, WhatIsNoSerializedProgramIsRefused) {
  EXPECT_TRUE(error_of([&] { client().deserialize("no program"); }).starts_with("plugin: "));
  EXPECT_TRUE(error_of([&] { client().deserialize(""); }).starts_with("plugin: "));
}

TEST_P(DeviceTest, OutputsAreAppended) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 1.0f);
  const Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy);
  const auto executable = client().compile(kNegate, {});
  std::vector<PJRT_Buffer*> arguments = {a.get()};
  std::vector<Buffer> outputs;
  executable->execute(arguments, {}, outputs).await();
  // The second run's argument is in the list that its output goes to.
  arguments[0] = outputs[0].get();
  executable->execute(arguments, {}, outputs).await();
  ASSERT_EQ(outputs.size(), 2u);
  if (computes()) {
    EXPECT_EQ(floats(outputs[0]), std::vector<float>(16, -1.0f));
    EXPECT_EQ(floats(outputs[1]), std::vector<float>(16, 1.0f));
  }
}

TEST_P(DeviceTest, ManyOutputs) {
  constexpr size_t kCount = 70;  // more than the list on the stack has room for
  std::string types;
  std::string values;
  for (size_t i = 0; i < kCount; ++i) {
    types += std::string(i ? ", " : "") + "tensor<16xf32>";
    values += std::string(i ? ", " : "") + (i % 2 ? "%0" : "%a");
  }
  const auto executable =
      client().compile(module_text("%a: tensor<16xf32>", types,
                                   "%0 = stablehlo.negate %a : tensor<16xf32>\n    return " +
                                       values + " : " + types),
                       {});
  const HostArray memory(kVectorBytes);
  memory.fill(16, 1.0f);
  const Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy);
  const std::vector<Buffer> outputs = run(*executable, {&a});
  ASSERT_EQ(outputs.size(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(outputs[i].type(), kVector);
    if (computes()) {
      EXPECT_EQ(floats(outputs[i])[15], i % 2 ? -1.0f : 1.0f);
    }
  }
}

TEST_P(DeviceTest, DonatedArgumentIsReplacedInPlace) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 5.0f);
  const Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kMutableZeroCopy);
  const auto executable = client().compile(kNegateInPlace, {});
  const std::vector<Buffer> outputs = run(*executable, {&a});
  EXPECT_TRUE(a.is_deleted());
  EXPECT_EQ(outputs[0].unsafe_pointer(), memory.data());
  EXPECT_EQ(memory.data<float>()[15], computes() ? -5.0f : 5.0f);
}

TEST_P(DeviceTest, NonDonatableArgumentIsKept) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 5.0f);
  const Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kMutableZeroCopy);
  const auto executable = client().compile(kNegateInPlace, {});
  const std::vector<Buffer> outputs = run(*executable, {&a}, {0});
  EXPECT_FALSE(a.is_deleted());
  EXPECT_NE(outputs[0].unsafe_pointer(), memory.data());
  EXPECT_EQ(memory.data<float>()[0], 5.0f);
  EXPECT_EQ(floats(a), std::vector<float>(16, 5.0f));
}

TEST_P(DeviceTest, ImmutableMemoryIsNotWrittenThoughDonated) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 5.0f);
  const Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy);
  const auto executable = client().compile(kNegateInPlace, {});
  const std::vector<Buffer> outputs = run(*executable, {&a});
  EXPECT_NE(outputs[0].unsafe_pointer(), memory.data());
  EXPECT_EQ(memory.data<float>()[0], 5.0f);
}

TEST_P(DeviceTest, UnreadDonatedArgumentTakesTheOutput) {
  const HostArray input(kVectorBytes);
  const HostArray output(kVectorBytes);
  input.fill(16, 2.0f);
  output.fill(16, 7.0f);
  const auto executable = client().compile(kNegateInto, {});
  const Buffer a = client().from_host(input.data(), kVector, HostSemantics::kImmutableZeroCopy);
  const Buffer b = client().from_host(output.data(), kVector, HostSemantics::kMutableZeroCopy);
  const std::vector<Buffer> outputs = run(*executable, {&a, &b});
  EXPECT_EQ(outputs[0].unsafe_pointer(), output.data());
  EXPECT_EQ(output.data<float>()[15], computes() ? -2.0f : 7.0f);
  EXPECT_EQ(input.data<float>()[15], 2.0f);
}

TEST_P(DeviceTest, MisalignedDonatedMemoryIsLeftAlone) {
  const HostArray input(kVectorBytes);
  const HostArray output(kVectorBytes, 4);
  input.fill(16, 2.0f);
  output.fill(16, 7.0f);
  const auto executable = client().compile(kNegateInto, {});
  const Buffer a = client().from_host(input.data(), kVector, HostSemantics::kImmutableZeroCopy);
  const Buffer b = client().from_host(output.data(), kVector, HostSemantics::kMutableZeroCopy);
  // What a caller has to ask, since nothing else tells.
  EXPECT_NE(b.unsafe_pointer(), output.data());
  const std::vector<Buffer> outputs = run(*executable, {&a, &b});
  EXPECT_EQ(output.data<float>()[15], 7.0f);
}

TEST_P(DeviceTest, OneBufferBothDonatedAndReadIsAnError) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 5.0f);
  const Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kMutableZeroCopy);
  const auto executable = client().compile(kNegateInto, {});
  const std::string error = error_of([&] { run(*executable, {&a, &a}); });
  EXPECT_TRUE(error.starts_with("plugin: PJRT_LoadedExecutable_Execute: ")) << error;
  EXPECT_EQ(memory.data<float>()[0], 5.0f);
}

TEST_P(DeviceTest, FailedCallLeavesOutputsAsTheyWere) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 1.0f);
  const Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy);
  const auto executable = client().compile(kNegate, {});
  std::vector<Buffer> outputs = run(*executable, {&a});
  const std::vector<PJRT_Buffer*> too_many = {a.get(), a.get()};
  EXPECT_NE(error_of([&] { executable->execute(too_many, {}, outputs); }), "");
  EXPECT_EQ(outputs.size(), 1u);
}

TEST_P(DeviceTest, DeletedArgumentIsAnError) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 1.0f);
  Buffer a = client().from_host(memory.data(), kVector, HostSemantics::kImmutableOnlyDuringCall);
  a.delete_memory();
  const auto executable = client().compile(kNegate, {});
  EXPECT_NE(error_of([&] { run(*executable, {&a}); }), "");
}

TEST_P(DeviceTest, EmptyAndScalarArguments) {
  const auto executable = client().compile(
      module_text("%a: tensor<0x4xf32>, %b: tensor<f32>", "tensor<0x4xf32>, tensor<f32>",
                  "%0 = stablehlo.negate %a : tensor<0x4xf32>\n"
                  "    %1 = stablehlo.negate %b : tensor<f32>\n"
                  "    return %0, %1 : tensor<0x4xf32>, tensor<f32>"),
      {});
  const Buffer a =
      client().from_host(nullptr, {DType::kF32, {0, 4}}, HostSemantics::kImmutableZeroCopy);
  const float one = 1;
  const Buffer b =
      client().from_host(&one, {DType::kF32, {}}, HostSemantics::kImmutableOnlyDuringCall);
  const std::vector<Buffer> outputs = run(*executable, {&a, &b});
  EXPECT_EQ(outputs[0].type(), (Type{DType::kF32, {0, 4}}));
  EXPECT_EQ(floats(outputs[0]).size(), 0u);
  EXPECT_EQ(outputs[1].type(), (Type{DType::kF32, {}}));
  if (computes()) {
    EXPECT_EQ(floats(outputs[1]), std::vector<float>{-1.0f});
  }
}

TEST_P(DeviceTest, EightThreadsRunOneExecutable) {
  constexpr int kThreads = 8;
  constexpr int kRuns = 200;
  const auto executable = client().compile(kNegateInto, {});
  std::array<int, kThreads> wrong = {};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread, &client = client()] {
      const HostArray input(kVectorBytes);
      const HostArray output(kVectorBytes);
      for (int i = 0; i < kRuns; ++i) {
        const auto value = static_cast<float>(thread * kRuns + i + 1);
        input.fill(16, value);
        output.fill(16, 0.0f);
        const Buffer a = client.from_host(input.data(), kVector, HostSemantics::kImmutableZeroCopy);
        const Buffer b = client.from_host(output.data(), kVector, HostSemantics::kMutableZeroCopy);
        const std::vector<Buffer> outputs = run(*executable, {&a, &b});
        const bool right = outputs[0].unsafe_pointer() == output.data() &&
                           (!computes() || output.data<float>()[15] == -value);
        wrong[static_cast<size_t>(thread)] += !right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<int, kThreads>{}));
}

}  // namespace
}  // namespace torch_pjrt::pjrt
