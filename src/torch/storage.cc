#include "torch/storage.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/AutogradState.h>

#include <utility>

#include "torch/signature.h"
#include "torch/tensor.h"

namespace torch_pjrt::lazy {
namespace {

bool needs_link(const Value& value) { return value && value.node->is_pending(); }

int64_t capacity(const c10::StorageImpl& storage, DType dtype) {
  return static_cast<int64_t>(storage.nbytes() / byte_size(dtype));
}

Value zeros(const Geometry& geometry) { return {record(zeros_signature(geometry), {}, {}, {}), 0}; }

// The number that a window's signature takes.
Scalar place(const Geometry& view) {
  return {ScalarKind::kInt, ScalarClass::kOther, Number::of_int(view.offset), -1};
}

// Gives a storage that nothing was written to elements: as eager's, anything.
void initialise(Storage& storage, const Geometry& wanted) {
  const int64_t size = capacity(storage, wanted.dtype);
  if (wanted.is_whole() && wanted.num_elements() == size) return storage.set(zeros(wanted), wanted);
  const Geometry flat = Geometry::flat(wanted.dtype, size);
  storage.set(zeros(flat), flat);
}

// After this the storage's value has the tensor's dtype and reaches to the storage's end.
void spread(Storage& storage, DType dtype) {
  const int64_t size = capacity(storage, dtype);
  const Geometry& old = storage.geometry();
  const int64_t held = old.num_elements() * static_cast<int64_t>(byte_size(old.dtype)) /
                       static_cast<int64_t>(byte_size(dtype));
  if (old.dtype == dtype && held == size) return;
  Value flat = view(storage.value(), old, Geometry::flat(dtype, std::min(held, size)));
  if (held < size) {
    const Geometry all = Geometry::flat(dtype, size);
    const Geometry part = Geometry::flat(dtype, held);
    flat = {record(scatter_signature(all, part), {zeros(all), std::move(flat)}, {}, {}), 0};
  }
  storage.set(std::move(flat), Geometry::flat(dtype, size));
}

}  // namespace

std::recursive_mutex& mutex() {
  static std::recursive_mutex& instance = *new std::recursive_mutex;
  return instance;
}

Storage::Storage(c10::StorageImpl::use_byte_size_t use_byte_size, c10::SymInt size_bytes,
                 c10::DataPtr data, c10::Allocator* allocator, bool resizable)
    : StorageImpl(use_byte_size, std::move(size_bytes), std::move(data), allocator, resizable) {}

Storage::~Storage() { release_resources(); }

void Storage::release_resources() {
  {
    const std::lock_guard lock(mutex());
    set({}, {});
  }
  StorageImpl::release_resources();
}

void Storage::link() {
  next_ = first_;
  if (next_) next_->previous_ = this;
  first_ = this;
}

void Storage::unlink() {
  if (first_ != this && !previous_) return;
  (previous_ ? previous_->next_ : first_) = next_;
  if (next_) next_->previous_ = previous_;
  previous_ = next_ = nullptr;
}

void Storage::set(Value value, Geometry geometry) {
  if (!needs_link(value)) {
    origin_.reset();
  } else if (value_ && !value_.node->is_pending()) {
    origin_ = value_.node->arrays[value_.index];
  }
  if (value_) --value_.node->holders[value_.index];
  unlink();
  value_ = std::move(value);
  geometry_ = std::move(geometry);
  if (value_) ++value_.node->holders[value_.index];
  if (needs_link(value_)) link();
}

Storage* Storage::first_ = nullptr;

bool is_on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kDevice;
}

at::Tensor make_tensor(Value value, const Geometry& geometry) {
  const at::ScalarType dtype = aten::to_torch(geometry.dtype);
  const auto item = static_cast<int64_t>(byte_size(geometry.dtype));
  c10::Storage storage(c10::make_storage_impl(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(geometry.extent() * item), c10::DataPtr(),
      c10::GetAllocator(kDevice), true, c10::Device(kDevice, 0)));
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef(geometry.dims),
                                                      at::IntArrayRef(geometry.strides));
  if (value) {
    geometry.is_whole() ? storage_of(tensor).set(std::move(value), geometry)
                        : write(tensor, std::move(value));
  }
  // The backward of what this thread records runs in this thread: the ops that it records are this
  // thread's, and a thread for our device isn't there if a backward ran before it was registered.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  return tensor;
}

at::Tensor empty(at::IntArrayRef dims, at::IntArrayRef strides, at::ScalarType dtype) {
  return make_tensor({}, {aten::from_torch(dtype), at::DimVector(dims), at::DimVector(strides), 0});
}

Storage& storage_of(const at::Tensor& tensor) {
  return static_cast<Storage&>(
      *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

Value view(const Value& value, const Geometry& from, const Geometry& to) {
  if (from == to) return value;
  if (const Signature* window = window_signature(kViews, from, to)) {
    return {record(*window, {value}, {place(to)}, {}), 0};
  }
  return {record(view_signature(from, to), {value}, {}, {}), 0};
}

Value read(const at::Tensor& tensor) {
  Storage& storage = storage_of(tensor);
  const Geometry geometry = Geometry::of(*tensor.unsafeGetTensorImpl());
  if (!storage.value() || storage.geometry().num_elements() == 0) initialise(storage, geometry);
  if (storage.geometry() == geometry) return storage.value();
  const auto end = static_cast<size_t>(geometry.extent()) * byte_size(geometry.dtype);
  const Geometry& held = storage.geometry();
  if (end > static_cast<size_t>(held.num_elements()) * byte_size(held.dtype)) {
    spread(storage, geometry.dtype);
  }
  return view(storage.value(), storage.geometry(), geometry);
}

void write(const at::Tensor& tensor, Value value) {
  Storage& storage = storage_of(tensor);
  const Geometry geometry = Geometry::of(*tensor.unsafeGetTensorImpl());
  const int64_t size = geometry.num_elements();
  if (size == 0) return;
  if (geometry.is_whole() && size == capacity(storage, geometry.dtype)) {
    storage.set(std::move(value), geometry);
    return;
  }
  if (!storage.value()) {
    initialise(storage, Geometry::flat(geometry.dtype, capacity(storage, geometry.dtype)));
  }
  spread(storage, geometry.dtype);
  const Geometry base = storage.geometry();
  std::vector<Value> operands = {storage.value(), std::move(value)};
  const Signature* window = window_signature(kScatters, base, geometry);
  const auto node = window ? record(*window, std::move(operands), {place(geometry)}, {})
                           : record(scatter_signature(base, geometry), std::move(operands), {}, {});
  storage.set({node, 0}, base);
}

}  // namespace torch_pjrt::lazy
