// Buffers, and the host memory that they are.
#pragma once

#include <pjrt_c_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "fake_plugin/event.h"
#include "fake_plugin/object.h"
#include "fake_plugin/program.h"

namespace torch_pjrt::fake {

// As XLA's CPU plugins: less aligned memory is copied, not used as it is.
inline constexpr size_t kAlignment = 64;

// A float of such bytes is NaN, an int -1.
inline constexpr int kPoison = 0xFF;

// Memory of the plugin's own, or the caller's.
class Storage {
 public:
  // Uninitialised memory; if it is poisoned, filled with kPoison now and when it is freed.
  Storage(size_t size, bool poisoned);
  // The caller's memory. `released`, unless null, is set when the plugin no longer uses it.
  Storage(void* data, bool writable, std::shared_ptr<Completion> released);
  ~Storage();

  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  // Whether an output may be put here.
  bool writable() const { return writable_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  size_t poisoned_size_ = 0;
  std::unique_ptr<void, Free> owned_;
  void* data_;
  bool writable_;
  std::shared_ptr<Completion> released_;
};

}  // namespace torch_pjrt::fake

struct PJRT_Buffer : torch_pjrt::fake::Object {
  PJRT_Buffer(PJRT_Client* client, std::shared_ptr<const torch_pjrt::fake::Shape> shape_of,
              std::shared_ptr<torch_pjrt::fake::Storage> storage)
      : Object(torch_pjrt::fake::Kind::kBuffer, client),
        shape(*shape_of),
        num_bytes(shape.num_bytes()),
        is_deleted_(!storage),
        shape_(std::move(shape_of)),
        storage_(std::move(storage)) {}

  const torch_pjrt::fake::Shape& shape;
  const size_t num_bytes;
  // The number of the last execution that it was to be donated to.
  std::atomic<uint64_t> donated_to = 0;
  // When its elements are there; null: from the start.
  std::shared_ptr<torch_pjrt::fake::Completion> written;

  // Throws a Failure if the memory was deleted or donated; a strict client ends the process.
  std::shared_ptr<torch_pjrt::fake::Storage> storage() const;
  // The same, and takes the memory away; null instead of a Failure.
  std::shared_ptr<torch_pjrt::fake::Storage> take();
  bool is_deleted() const { return is_deleted_; }

 private:
  std::atomic<bool> is_deleted_;  // what storage_ says, without the lock
  const std::shared_ptr<const torch_pjrt::fake::Shape> shape_;
  mutable std::mutex mutex_;
  std::shared_ptr<torch_pjrt::fake::Storage> storage_;  // null when deleted or donated
};

namespace torch_pjrt::fake {

// PJRT_Client_BufferFromHostBuffer.
void buffer_from_host(PJRT_Client_BufferFromHostBuffer_Args& args);

}  // namespace torch_pjrt::fake
