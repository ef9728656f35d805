// Data as bytes and back, by one walk: a function template that takes a ByteWriter or a ByteReader
// and names each part in turn. `number` and `text` are its steps, and `list` goes over the elements
// of a vector, whose number it writes or reads first.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace torch_pjrt {

class ByteWriter {
 public:
  // An integer or an enumerator.
  template <class T>
  void number(const T& value) {
    const auto wide = static_cast<int64_t>(value);
    bytes_.append(reinterpret_cast<const char*>(&wide), sizeof(wide));
  }
  // Exactly, whatever its bits.
  void real(const double& value) {
    int64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    number(bits);
  }
  void text(const std::string& value) {
    number(value.size());
    bytes_ += value;
  }
  template <class List, class Each>
  void list(const List& values, Each each) {
    number(values.size());
    for (const auto& value : values) each(value);
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Throws Error(kIo) where the bytes end too early.
class ByteReader {
 public:
  // `what` the bytes are, for the message.
  ByteReader(std::string_view bytes, std::string_view what) : rest_(bytes), what_(what) {}

  template <class T>
  void number(T& value) {
    int64_t wide = 0;
    std::memcpy(&wide, take(sizeof(wide)).data(), sizeof(wide));
    value = static_cast<T>(wide);
  }
  void real(double& value) {
    int64_t bits = 0;
    number(bits);
    std::memcpy(&value, &bits, sizeof value);
  }
  void text(std::string& value) { value = take(size()); }
  template <class List, class Each>
  void list(List& values, Each each) {
    values.resize(size());
    for (auto& value : values) each(value);
  }

  // Throws Error(kIo) for bytes that nothing has read.
  void finish() const {
    if (!rest_.empty()) fail(Code::kIo, what_, " has bytes too many");
  }

 private:
  // Of what follows, of which each element has a byte at least.
  size_t size() {
    size_t size = 0;
    number(size);
    if (size > rest_.size()) fail_cut();
    return size;
  }
  std::string_view take(size_t size) {
    if (size > rest_.size()) fail_cut();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  [[noreturn]] void fail_cut() const { fail(Code::kIo, what_, " ends too early"); }

  std::string_view rest_;
  std::string_view what_;
};

}  // namespace torch_pjrt
