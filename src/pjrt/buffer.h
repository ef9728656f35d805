// An array on the device.
#pragma once

#include <cstddef>
#include <memory>

#include "base/type.h"
#include "pjrt/api.h"
#include "pjrt/event.h"

namespace torch_pjrt::pjrt {

// Move-only; its memory is the plugin's to free, or the caller's if it was made without a copy. Any
// thread may use it; it is destroyed by one, when no other uses it and no call that was given it is
// still on its way to the device. The client outlives it.
class Buffer {
 public:
  // Takes ownership.
  Buffer(Api api, PJRT_Buffer* buffer) : buffer_(buffer, {api}) {}

  // Throws Error(kUnsupported) for an element type that we have no name for.
  Type type() const;

  // Where its elements are. On a host platform this is an ordinary pointer; otherwise it may be
  // anything. Throws Error(kPlugin) if the memory was deleted or donated, or has no address.
  void* unsafe_pointer() const;

  // Waits for the elements and copies them to `destination` in row-major order. `size` is in bytes
  // and is the type's.
  void to_host(void* destination, size_t size) const;

  // Complete when the elements are there.
  Event ready() const;

  // Gives the memory back before the object goes; only is_deleted() may be asked afterwards.
  void delete_memory();

  // Whether the memory was given back or donated.
  bool is_deleted() const;

  PJRT_Buffer* get() const { return buffer_.get(); }

 private:
  const Api& api() const { return buffer_.get_deleter().api; }

  std::unique_ptr<PJRT_Buffer, Deleter<&PJRT_Api::PJRT_Buffer_Destroy>> buffer_;
};

}  // namespace torch_pjrt::pjrt
