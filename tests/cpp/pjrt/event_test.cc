#include "pjrt/event.h"

#include <optional>
#include <thread>

#include "device_test.h"

namespace torch_pjrt::pjrt {
namespace {

TEST_P(DeviceTest, NullEventIsComplete) {
  const Event event(client().plugin().api(), nullptr);
  EXPECT_TRUE(event.is_ready());
  EXPECT_TRUE(event.poll(0));
  event.wait(0);
}

// The host memory of a zero-copy buffer is in use until the buffer is gone, which gives an event
// that stays pending for as long as a test likes.
TEST_P(DeviceTest, PendingEventIsAwaited) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 1.0f);
  Event done(client().plugin().api(), nullptr);
  std::optional<Buffer> buffer =
      client().from_host(memory.data(), kVector, HostSemantics::kImmutableZeroCopy, &done);
  EXPECT_FALSE(done.is_ready());
  EXPECT_FALSE(done.poll(50));
  std::thread other([&] { buffer.reset(); });
  done.wait(10);
  EXPECT_TRUE(done.is_ready());
  other.join();
}

TEST_P(DeviceTest, CopiedMemoryIsFreeAtOnce) {
  const HostArray memory(kVectorBytes);
  memory.fill(16, 1.0f);
  Event done(client().plugin().api(), nullptr);
  const Buffer buffer = client().from_host(memory.data(), kVector,
                                           HostSemantics::kImmutableUntilTransferCompletes, &done);
  done.await();
  memory.fill(16, 2.0f);
  EXPECT_EQ(floats(buffer), std::vector<float>(16, 1.0f));
}

}  // namespace
}  // namespace torch_pjrt::pjrt
