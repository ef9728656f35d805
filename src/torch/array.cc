#include "torch/array.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace torch_pjrt::lazy {
namespace {

// Copies a dense tensor whose dims lie in `order` to row-major memory.
void unpermute(const char* from, char* to, const Type& type, const lower::Order& order) {
  const size_t item = byte_size(type.dtype);
  const auto rank = type.dims.size();
  const Dims strides = dense_strides(type.dims, order);
  Dims index(rank, 0);
  int64_t source = 0;
  for (int64_t n = type.num_elements(), k = 0; k < n; ++k) {
    std::copy_n(from + source * static_cast<int64_t>(item), item,
                to + k * static_cast<int64_t>(item));
    for (size_t d = rank; d-- > 0;) {
      source += strides[d];
      if (++index[d] < type.dims[d]) break;
      source -= strides[d] * type.dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace

void Array::give(pjrt::Buffer buffer) {
  {
    const std::lock_guard lock(mutex_);
    buffer_ = std::move(buffer);
  }
  given_.notify_all();
}

void Array::give(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
  }
  given_.notify_all();
}

const pjrt::Buffer& Array::buffer() const {
  std::unique_lock lock(mutex_);
  given_.wait(lock, [this] { return buffer_ || error_; });
  if (error_) std::rethrow_exception(error_);
  return *buffer_;
}

bool Array::is_given() const {
  const std::lock_guard lock(mutex_);
  return buffer_ || error_;
}

void Array::to_host(void* destination, size_t size) const {
  const pjrt::Buffer& buffer = this->buffer();
  for (const std::shared_ptr<Check>& check : checks_) check->raise();
  if (size == 0) return;
  if (lower::is_row_major(order_)) return buffer.to_host(destination, size);
  std::vector<char> physical(size);
  buffer.to_host(physical.data(), size);
  unpermute(physical.data(), static_cast<char*>(destination), type_, order_);
}

}  // namespace torch_pjrt::lazy
