#include "pjrt/buffer.h"

#include <cstring>
#include <numeric>

#include "device_test.h"

namespace torch_pjrt::pjrt {
namespace {

constexpr HostSemantics kAllSemantics[] = {
    HostSemantics::kImmutableOnlyDuringCall, HostSemantics::kImmutableUntilTransferCompletes,
    HostSemantics::kImmutableZeroCopy, HostSemantics::kMutableZeroCopy};

TEST_P(DeviceTest, BufferKeepsTypeAndBytesOfEveryDType) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const Type type{static_cast<DType>(i), {2, 3, 5}};
    const auto size = static_cast<size_t>(type.num_bytes());
    const HostArray input(size);
    // 0 and 1 only: a bool has no other value.
    for (size_t k = 0; k < size; ++k) input.data()[k] = static_cast<char>(k % 3 == 1);
    for (const HostSemantics semantics : kAllSemantics) {
      const Buffer buffer = client().from_host(input.data(), type, semantics);
      EXPECT_EQ(buffer.type(), type) << to_string(type);
      std::vector<char> output(size, 7);
      buffer.to_host(output.data(), size);
      EXPECT_EQ(std::memcmp(output.data(), input.data(), size), 0)
          << to_string(type) << ", semantics " << static_cast<int>(semantics);
    }
  }
}

TEST_P(DeviceTest, BufferOfRankZero) {
  const double input = 2.5;
  const Buffer buffer =
      client().from_host(&input, {DType::kF64, {}}, HostSemantics::kImmutableOnlyDuringCall);
  EXPECT_EQ(buffer.type(), (Type{DType::kF64, {}}));
  double output = 0;
  buffer.to_host(&output, sizeof(output));
  EXPECT_EQ(output, 2.5);
}

TEST_P(DeviceTest, BufferWithoutElementsNeedsNoMemory) {
  const Type type{DType::kI64, {3, 0, 2}};
  for (const HostSemantics semantics : kAllSemantics) {
    const Buffer buffer = client().from_host(nullptr, type, semantics);
    EXPECT_EQ(buffer.type(), type);
    buffer.to_host(nullptr, 0);
  }
  // A caller that asks whether its memory was used compares pointers.
  EXPECT_EQ(client().from_host(nullptr, type, HostSemantics::kMutableZeroCopy).unsafe_pointer(),
            nullptr);
}

TEST_P(DeviceTest, NullDataWithElementsIsInvalid) {
  EXPECT_EQ(
      error_of([&] { client().from_host(nullptr, kVector, HostSemantics::kImmutableZeroCopy); }),
      "invalid: from_host: null data for f32[16], which has elements; pass their address");
}

TEST_P(DeviceTest, AlignedMemoryIsUsedAsItIs) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 1.0f);
  for (const auto semantics :
       {HostSemantics::kImmutableZeroCopy, HostSemantics::kMutableZeroCopy}) {
    const Buffer buffer = client().from_host(memory.data(), kVector, semantics);
    EXPECT_EQ(buffer.unsafe_pointer(), memory.data());
  }
  const Buffer copy =
      client().from_host(memory.data(), kVector, HostSemantics::kImmutableOnlyDuringCall);
  EXPECT_NE(copy.unsafe_pointer(), memory.data());
}

TEST_P(DeviceTest, MisalignedMemoryIsCopied) {
  const HostArray memory(kVectorBytes, 4);
  memory.fill(16, 3.0f);
  const Buffer buffer =
      client().from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy);
  EXPECT_NE(buffer.unsafe_pointer(), memory.data());
  EXPECT_EQ(floats(buffer), std::vector<float>(16, 3.0f));
}

TEST_P(DeviceTest, DeletedBufferSaysSo) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 1.0f);
  Buffer buffer =
      client().from_host(memory.data(), kVector, HostSemantics::kImmutableOnlyDuringCall);
  EXPECT_FALSE(buffer.is_deleted());
  buffer.ready().await();
  buffer.delete_memory();
  EXPECT_TRUE(buffer.is_deleted());
  const std::string error = error_of([&] { buffer.unsafe_pointer(); });
  EXPECT_TRUE(error.starts_with("plugin: PJRT_Buffer_UnsafePointer: the plugin reports ")) << error;
  EXPECT_NE(error_of([&] { floats(buffer); }), "");
}

TEST_P(DeviceTest, TooSmallADestinationIsAnError) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 1.0f);
  const Buffer buffer =
      client().from_host(memory.data(), kVector, HostSemantics::kImmutableOnlyDuringCall);
  std::vector<float> output(16, 9.0f);
  EXPECT_NE(error_of([&] { buffer.to_host(output.data(), 60); }), "");
  EXPECT_EQ(output, std::vector<float>(16, 9.0f));
  EXPECT_NE(error_of([&] { buffer.to_host(nullptr, 0); }), "");
}

}  // namespace
}  // namespace torch_pjrt::pjrt
