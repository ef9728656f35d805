// Keys of the lazy device's tables: the bytes of numbers, one after the other.
#pragma once

#include <string>
#include <type_traits>

namespace torch_pjrt::lazy {

template <class T>
  requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>)
void append(std::string& key, const T& v) {
  key.append(reinterpret_cast<const char*>(&v), sizeof v);
}

}  // namespace torch_pjrt::lazy
