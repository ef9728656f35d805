#include "fake_plugin/buffer.h"

#include <cstring>
#include <new>
#include <utility>

#include "fake_plugin/client.h"
#include "fake_plugin/strict.h"
#include "fake_plugin/table.h"

using torch_pjrt::fake::Storage;

std::shared_ptr<Storage> PJRT_Buffer::storage() const {
  const std::lock_guard lock(mutex_);
  if (!storage_) {
    if (is_strict()) torch_pjrt::fake::die("use of a buffer that was deleted or donated");
    torch_pjrt::fake::fail(PJRT_Error_Code_INVALID_ARGUMENT,
                           "fake plugin: the buffer has been deleted or donated");
  }
  return storage_;
}

std::shared_ptr<Storage> PJRT_Buffer::take() {
  const std::lock_guard lock(mutex_);
  is_deleted_ = true;
  return std::exchange(storage_, nullptr);
}

namespace torch_pjrt::fake {
namespace {

bool is_row_major(const PJRT_Buffer_MemoryLayout* layout, size_t rank) {
  if (!layout) return true;
  if (layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled || layout->tiled.num_tiles != 0 ||
      layout->tiled.minor_to_major_size != rank) {
    return false;
  }
  for (size_t i = 0; i < rank; ++i) {
    if (layout->tiled.minor_to_major[i] != static_cast<int64_t>(rank - 1 - i)) return false;
  }
  return true;
}

bool is_dense(const PJRT_Client_BufferFromHostBuffer_Args& args) {
  if (args.num_byte_strides == 0) return true;
  if (args.num_byte_strides != args.num_dims) return false;
  auto stride = static_cast<int64_t>(element_size(args.type));
  for (size_t i = args.num_dims; i-- > 0; stride *= args.dims[i]) {
    if (args.dims[i] != 1 && args.byte_strides[i] != stride) return false;
  }
  return true;
}

void copy_to_host(PJRT_Buffer_ToHostBuffer_Args& args) {
  const size_t size = args.src->num_bytes;
  if (!is_row_major(args.host_layout, args.src->shape.dims.size())) {
    fail(PJRT_Error_Code_UNIMPLEMENTED, "fake plugin: host layouts other than row-major");
  }
  if (!args.dst) {
    args.dst_size = size;
    return;
  }
  if (args.dst_size < size) {
    fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: the destination has ", args.dst_size,
         " bytes, the buffer ", size);
  }
  const std::shared_ptr<Storage> storage = args.src->storage();
  if (size != 0) std::memcpy(args.dst, storage->data(), size);
  args.event = make_event(args.src->client(), args.src->written);
}

}  // namespace

// A multiple of the alignment, as aligned_alloc wants it, and never nothing: an array without
// elements has an address too.
Storage::Storage(size_t size, bool poisoned)
    : poisoned_size_(poisoned ? size : 0),
      owned_(std::aligned_alloc(kAlignment, (size / kAlignment + 1) * kAlignment)),
      data_(owned_.get()),
      writable_(true) {
  if (!owned_) throw std::bad_alloc();
  std::memset(data_, kPoison, poisoned_size_);
}

Storage::Storage(void* data, bool writable, std::shared_ptr<Completion> released)
    : data_(data), writable_(writable), released_(std::move(released)) {}

Storage::~Storage() {
  if (poisoned_size_ != 0) {
    std::memset(data_, kPoison, poisoned_size_);
    asm volatile("" : : "r"(data_) : "memory");  // or a compiler leaves out what free() follows
  }
  if (released_) released_->set();
}

void buffer_from_host(PJRT_Client_BufferFromHostBuffer_Args& args) {
  if (element_size(args.type) == 0) {
    fail(PJRT_Error_Code_UNIMPLEMENTED, "fake plugin: element type number ", args.type);
  }
  if (!is_dense(args) || !is_row_major(args.device_layout, args.num_dims)) {
    fail(PJRT_Error_Code_UNIMPLEMENTED, "fake plugin: layouts other than dense and row-major");
  }
  auto shape =
      std::make_shared<const Shape>(Shape{args.type, {args.dims, args.dims + args.num_dims}});
  std::shared_ptr<Storage> storage;
  const bool writable = args.host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy;
  const bool zero_copy =
      writable || args.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy;
  std::shared_ptr<Completion> released;
  const bool own_memory = args.client->modes.own_memory;
  if (zero_copy && !own_memory && reinterpret_cast<uintptr_t>(args.data) % kAlignment == 0) {
    released = std::make_shared<Completion>();
    storage = std::make_shared<Storage>(const_cast<void*>(args.data), writable, released);
  } else {
    const size_t size = shape->num_bytes();
    storage = std::make_shared<Storage>(size, own_memory);
    if (size != 0) std::memcpy(storage->data(), args.data, size);
  }
  auto buffer = std::make_unique<PJRT_Buffer>(args.client, std::move(shape), std::move(storage));
  args.done_with_host_buffer = make_event(args.client, std::move(released));
  args.buffer = buffer.release();
}

void add_buffer_functions(Table& table) {
  table.add_destructor<&PJRT_Api::PJRT_Buffer_Destroy>([](auto& args) {
    // The memory goes now, though the shell of a strict client's buffer stays.
    if (args.buffer) args.buffer->take();
    destroy(args.buffer);
  });
  table.add<&PJRT_Api::PJRT_Buffer_ElementType>(
      [](auto& args) { args.type = args.buffer->shape.type; });
  table.add<&PJRT_Api::PJRT_Buffer_Dimensions>([](auto& args) {
    args.dims = args.buffer->shape.dims.data();
    args.num_dims = args.buffer->shape.dims.size();
  });
  table.add<&PJRT_Api::PJRT_Buffer_UnpaddedDimensions>([](auto& args) {
    args.unpadded_dims = args.buffer->shape.dims.data();
    args.num_dims = args.buffer->shape.dims.size();
  });
  table.add<&PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes>(
      [](auto& args) { args.on_device_size_in_bytes = args.buffer->num_bytes; });
  table.add<&PJRT_Api::PJRT_Buffer_Device>(
      [](auto& args) { args.device = args.buffer->client()->device_list.front(); });
  table.add<&PJRT_Api::PJRT_Buffer_Memory>(
      [](auto& args) { args.memory = &args.buffer->client()->memory; });
  table.add<&PJRT_Api::PJRT_Buffer_Delete>([](auto& args) { args.buffer->take(); });
  table.add<&PJRT_Api::PJRT_Buffer_IsDeleted>(
      [](auto& args) { args.is_deleted = args.buffer->is_deleted(); });
  table.add<&PJRT_Api::PJRT_Buffer_ToHostBuffer>([](auto& args) { copy_to_host(args); });
  table.add<&PJRT_Api::PJRT_Buffer_IsOnCpu>(
      [](auto& args) { args.is_on_cpu = !args.buffer->client()->modes.own_memory; });
  table.add<&PJRT_Api::PJRT_Buffer_ReadyEvent>([](auto& args) {
    args.buffer->storage();
    args.event = make_event(args.buffer->client(), args.buffer->written);
  });
  table.add<&PJRT_Api::PJRT_Buffer_UnsafePointer>([](auto& args) {
    if (args.buffer->client()->modes.own_memory) {
      fail(PJRT_Error_Code_UNIMPLEMENTED, "fake plugin: its memory has no addresses");
    }
    args.buffer_pointer = reinterpret_cast<uintptr_t>(args.buffer->storage()->data());
  });
}

}  // namespace torch_pjrt::fake
