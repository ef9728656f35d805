#include "pjrt/buffer.h"

#include <vector>

#include "pjrt/element_type.h"

namespace torch_pjrt::pjrt {
namespace {

// A host layout with the last dim the fastest; without one a plugin gives what the device has. (The
// CPU plugin gives that in any case: it matters that no program of ours asks for another layout.)
PJRT_Buffer_MemoryLayout row_major(const std::vector<int64_t>& minor_to_major) {
  PJRT_Buffer_MemoryLayout layout = {};
  layout.struct_size = sizeof(layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = sizeof(layout.tiled);
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  return layout;
}

}  // namespace

Type Buffer::type() const {
  const auto element = api().call<&PJRT_Api::PJRT_Buffer_ElementType>({.buffer = get()});
  const auto shape = api().call<&PJRT_Api::PJRT_Buffer_Dimensions>({.buffer = get()});
  const std::optional<DType> dtype = from_pjrt(element.type);
  if (!dtype) {
    fail(Code::kUnsupported, "PJRT buffer of element type number ", static_cast<int>(element.type),
         ": torch-pjrt has no such dtype; convert it within the program");
  }
  return {*dtype, Dims(shape.dims, shape.dims + shape.num_dims)};
}

void* Buffer::unsafe_pointer() const {
  const auto args = api().call<&PJRT_Api::PJRT_Buffer_UnsafePointer>({.buffer = get()});
  return reinterpret_cast<void*>(args.buffer_pointer);
}

void Buffer::to_host(void* destination, size_t size) const {
  const auto shape = api().call<&PJRT_Api::PJRT_Buffer_Dimensions>({.buffer = get()});
  std::vector<int64_t> minor_to_major(shape.num_dims);
  for (size_t i = 0; i < shape.num_dims; ++i) {
    minor_to_major[i] = static_cast<int64_t>(shape.num_dims - 1 - i);
  }
  PJRT_Buffer_MemoryLayout layout = row_major(minor_to_major);
  // A null destination would ask for the size instead.
  char none = 0;
  const auto args =
      api().call<&PJRT_Api::PJRT_Buffer_ToHostBuffer>({.src = get(),
                                                       .host_layout = &layout,
                                                       .dst = size == 0 ? &none : destination,
                                                       .dst_size = size});
  Event(api(), args.event).await();
}

Event Buffer::ready() const {
  return {api(), api().call<&PJRT_Api::PJRT_Buffer_ReadyEvent>({.buffer = get()}).event};
}

void Buffer::delete_memory() { api().call<&PJRT_Api::PJRT_Buffer_Delete>({.buffer = get()}); }

bool Buffer::is_deleted() const {
  return api().call<&PJRT_Api::PJRT_Buffer_IsDeleted>({.buffer = get()}).is_deleted;
}

}  // namespace torch_pjrt::pjrt
