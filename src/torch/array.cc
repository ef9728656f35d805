#include "torch/array.h"

#include <algorithm>
#include <atomic>
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

std::atomic<int64_t> bytes_now = 0;
std::atomic<int64_t> bytes_at_most = 0;

void count(int64_t bytes) {
  const int64_t now = bytes_now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = bytes_at_most.load(std::memory_order_relaxed);
  while (now > peak && !bytes_at_most.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

}  // namespace

Memory memory() { return {bytes_now, bytes_at_most}; }
void reset_peak_memory() { bytes_at_most = bytes_now.load(); }

Array::~Array() {
  if (buffer_) count(-type_.num_bytes());
}

void Array::donated() {
  const std::lock_guard lock(mutex_);
  buffer_.reset();
  error_ = std::make_exception_ptr(Error(Code::kInternal, "an array that was donated is read"));
  count(-type_.num_bytes());
}

void Array::give(pjrt::Buffer buffer) {
  {
    const std::lock_guard lock(mutex_);
    buffer_ = std::move(buffer);
    count(type_.num_bytes());
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
