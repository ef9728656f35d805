#include "cache/key.h"

#include <algorithm>
#include <cstring>

namespace torch_pjrt::cache {
namespace {

void put_size(std::string& bytes, uint64_t size) {
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
}

// Takes the size and then the bytes that put_size() and its caller have written.
std::optional<std::string_view> take(std::string_view& rest) {
  uint64_t size = 0;
  if (rest.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, rest.data(), sizeof size);
  rest.remove_prefix(sizeof size);
  if (rest.size() < size) return std::nullopt;
  const std::string_view taken = rest.substr(0, size);
  rest.remove_prefix(size);
  return taken;
}

}  // namespace

std::optional<Key> Key::from_bytes(std::string_view bytes) {
  Key key;
  while (!bytes.empty()) {
    const auto name = take(bytes);
    const auto content = name ? take(bytes) : std::nullopt;
    if (!content) return std::nullopt;
    key.add(*name, *content);
  }
  return key;
}

std::vector<std::pair<std::string_view, std::string_view>> Key::parts() const {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  for (const Part& part : parts_) all.emplace_back(part.name, content(part));
  return all;
}

void Key::add(std::string_view name, std::string_view bytes) {
  put_size(bytes_, name.size());
  bytes_ += name;
  put_size(bytes_, bytes.size());
  parts_.push_back({std::string(name), bytes_.size(), bytes.size()});
  bytes_ += bytes;
}

void Key::add(std::string_view name, int64_t number) { add(name, std::span(&number, 1)); }

void Key::add(std::string_view name, std::span<const int64_t> numbers) {
  add(name, std::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()));
}

std::string_view Key::content(const Part& part) const {
  return std::string_view(bytes_).substr(part.begin, part.size);
}

std::vector<std::string> difference(const Key& a, const Key& b) {
  std::vector<std::string> names;
  const size_t shared = std::min(a.parts_.size(), b.parts_.size());
  for (size_t i = 0; i < shared; ++i) {
    const Key::Part& part = a.parts_[i];
    const Key::Part& other = b.parts_[i];
    if (part.name != other.name || a.content(part) != b.content(other)) names.push_back(part.name);
  }
  for (size_t i = shared; i < a.parts_.size(); ++i) names.push_back(a.parts_[i].name);
  for (size_t i = shared; i < b.parts_.size(); ++i) names.push_back(b.parts_[i].name);
  return names;
}

}  // namespace torch_pjrt::cache
