// Arrays on the device that tensors of device="pjrt" hold.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "base/type.h"
#include "lower/order.h"
#include "pjrt/buffer.h"
#include "torch/check.h"

namespace torch_pjrt::lazy {

// Bytes of the arrays on the device; of those that a program has not given yet there are none.
struct Memory {
  int64_t now = 0;
  int64_t peak = 0;  // since the start or the last reset
};
Memory memory();
void reset_peak_memory();

// An array of the device, or one that a program on its way will give. Any thread may use it.
class Array {
 public:
  // `checks`: of the programs that its elements are of.
  Array(Type type, lower::Order order, Checks checks)
      : type_(std::move(type)), order_(std::move(order)), checks_(std::move(checks)) {}
  Array(Type type, lower::Order order, pjrt::Buffer buffer, Checks checks = {})
      : Array(std::move(type), std::move(order), std::move(checks)) {
    give(std::move(buffer));
  }
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  const Type& type() const { return type_; }  // logical dims
  // The logical dims in the order in which the buffer has them.
  const lower::Order& order() const { return order_; }
  const Checks& checks() const { return checks_; }

  // Each once, by whoever runs the program.
  void give(pjrt::Buffer buffer);
  void give(std::exception_ptr error);
  // By the one that alone has it: a program has taken its memory.
  void donated();

  // Waits until the program has been started, not until it has ended. Throws its error.
  const pjrt::Buffer& buffer() const;
  // Whether buffer() would not wait.
  bool is_given() const;

  // The elements in logical row-major order; waits for the program. `size` is in bytes. Throws what
  // its checks raise.
  void to_host(void* destination, size_t size) const;

 private:
  const Type type_;
  const lower::Order order_;
  const Checks checks_;
  mutable std::mutex mutex_;
  mutable std::condition_variable given_;
  std::optional<pjrt::Buffer> buffer_;
  std::exception_ptr error_;
};

}  // namespace torch_pjrt::lazy
