// Storages of device="pjrt": each holds one value; tensors are views of it, and a write gives it
// another.
#pragma once

#include <c10/core/StorageImpl.h>

#include <mutex>

#include "torch/pending.h"

namespace torch_pjrt::lazy {

inline constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

// Guards all pending values and storages. Never held while a program is compiled or run, nor while
// Python's lock is waited for. Recursive, since a tensor may end while it is held.
std::recursive_mutex& mutex();

// All members are guarded by mutex().
class Storage final : public c10::StorageImpl {
 public:
  Storage(c10::StorageImpl::use_byte_size_t, c10::SymInt size_bytes, c10::DataPtr data,
          c10::Allocator* allocator, bool resizable);
  ~Storage() override;
  void release_resources() override;

  const Value& value() const { return value_; }           // null: uninitialised
  const Geometry& geometry() const { return geometry_; }  // where the value's elements lie
  void set(Value value, Geometry geometry);

  // The array that it held before its pending value; null if there is none any more.
  std::shared_ptr<Array> origin() const { return origin_.lock(); }

  // Calls f(const Storage&) for each storage whose value is pending.
  template <class F>
  static void for_each_pending(F f) {
    for (Storage *s = first_, *next = nullptr; s; s = next) {
      next = s->next_;
      if (s->value_.node->is_pending()) {
        f(*s);
      } else {
        s->unlink();
      }
    }
  }

  // Whether this thread has recorded what one of them holds.
  static bool any_pending() {
    bool any = false;
    for_each_pending([&](const Storage& s) { any |= s.value_.node->thread == this_thread(); });
    return any;
  }

 private:
  void link();
  void unlink();

  static Storage* first_;  // those whose value was pending when it was set

  Value value_;
  Geometry geometry_;
  std::weak_ptr<Array> origin_;
  Storage* previous_ = nullptr;
  Storage* next_ = nullptr;
};

bool is_on_device(const at::Tensor& tensor);

// A tensor over a storage of its own.
at::Tensor make_tensor(Value value, const Geometry& geometry);
at::Tensor empty(at::IntArrayRef dims, at::IntArrayRef strides, at::ScalarType dtype);

// The tensor's value: that of its storage, or a view of it. mutex() is held.
Value read(const at::Tensor& tensor);
// Makes the value, of the tensor's dtype and sizes, the tensor's. mutex() is held.
void write(const at::Tensor& tensor, Value value);
// The elements of `value`, which lie as `from`, that lie as `to`. mutex() is held.
Value view(const Value& value, const Geometry& from, const Geometry& to);

Storage& storage_of(const at::Tensor& tensor);

}  // namespace torch_pjrt::lazy
