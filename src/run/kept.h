// Buffers over host memory that are kept from call to call, since parameters stay where they are.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "pjrt/buffer.h"

namespace torch_pjrt::run {

// One slot per input that the program reads. Any thread may use it. A buffer that a call replaces
// lives on until every call that may have been given it has ended: PJRT doesn't count the
// executions that use a buffer.
class Kept {
 public:
  explicit Kept(size_t slots) : slots_(slots) {}

  // The time between a call's first look at the slots and the end of its execution. While it looks
  // it holds the lock.
  class Use {
   public:
    explicit Use(Kept& kept);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();

    // The slot's buffer if it lies over `data`, else null.
    PJRT_Buffer* find(size_t slot, const void* data) const {
      const Slot& s = kept_.slots_[slot];
      return s.buffer && s.data == data ? s.buffer->get() : nullptr;
    }
    PJRT_Buffer* replace(size_t slot, const void* data, pjrt::Buffer buffer);
    // The slots have been read.
    void unlock() { lock_.unlock(); }

   private:
    Kept& kept_;
    std::unique_lock<std::mutex> lock_;
    uint64_t ticket_;
  };

 private:
  struct Slot {
    const void* data = nullptr;
    std::optional<pjrt::Buffer> buffer;
  };
  struct Retired {
    uint64_t last_ticket;  // of the calls that may use it
    pjrt::Buffer buffer;
  };

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<Retired> retired_;
  std::vector<uint64_t> active_;  // tickets of calls that haven't ended
  uint64_t last_ticket_ = 0;
};

}  // namespace torch_pjrt::run
