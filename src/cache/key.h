// What identifies a compiled program: an ordered list of named parts, compared in full.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace torch_pjrt::cache {

class Key {
 public:
  // Appends a part. Keys that are compared have the same names in the same order.
  void add(std::string_view name, std::string_view bytes);
  void add(std::string_view name, int64_t number);
  void add(std::string_view name, std::span<const int64_t> numbers);

  // The key with these bytes; none if they are no key's.
  static std::optional<Key> from_bytes(std::string_view bytes);

  // All parts with names and sizes: two keys are equal exactly if these are.
  const std::string& bytes() const { return bytes_; }
  bool operator==(const Key& other) const { return bytes_ == other.bytes_; }

  // The parts in order: name and content, which are views.
  std::vector<std::pair<std::string_view, std::string_view>> parts() const;

  // Names of the parts in which the keys differ, so that a second compile can be explained.
  friend std::vector<std::string> difference(const Key& a, const Key& b);

 private:
  struct Part {
    std::string name;
    size_t begin;  // in bytes_
    size_t size;
  };
  std::string_view content(const Part& part) const;

  std::vector<Part> parts_;
  std::string bytes_;
};

std::vector<std::string> difference(const Key& a, const Key& b);

}  // namespace torch_pjrt::cache
