#include "cache/entry.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "cache/folder.h"

namespace torch_pjrt::cache {
namespace {

// `check` is the hash of all after it.
struct Header {
  char magic[8] = {'t', 'p', 'j', 'r', 't', 'e', 'x', 'e'};
  uint64_t version = 1;  // of this format; another byte order is another version
  uint64_t check = 0;
  uint64_t key_size = 0;
  uint64_t value_size = 0;
};
constexpr size_t kChecked = offsetof(Header, key_size);

EntryView damaged(std::string what) { return {std::move(what), {}, {}}; }

}  // namespace

std::string entry_name(std::string_view key_bytes) {
  return hex(uint64_t{key_bytes.size()}).substr(8) + hex(hash(key_bytes)) +
         std::string(kEntrySuffix);
}

std::string to_entry(const Key& key, std::string_view value) {
  Header header;
  header.key_size = key.bytes().size();
  header.value_size = value.size();
  const auto bytes = [&] {
    return std::string_view(reinterpret_cast<const char*>(&header), sizeof(header));
  };
  std::string entry(bytes());
  entry += key.bytes();
  entry += value;
  header.check = hash(std::string_view(entry).substr(kChecked));
  return entry.replace(0, sizeof(header), bytes());
}

EntryView view_entry(std::string_view entry) {
  const Header expected;
  Header header;
  if (entry.size() < sizeof(header)) return damaged(str("it has only ", entry.size(), " bytes"));
  std::memcpy(&header, entry.data(), sizeof(header));
  if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
    return damaged("it doesn't begin as entries do");
  }
  if (header.version != expected.version) return damaged("it is of another version of the format");
  const std::string_view rest = entry.substr(sizeof(header));
  if (header.key_size > rest.size() || header.value_size != rest.size() - header.key_size) {
    return damaged("its size isn't what its header says");
  }
  if (header.check != hash(entry.substr(kChecked))) return damaged("its checksum doesn't fit");
  return {"", rest.substr(0, header.key_size), rest.substr(header.key_size)};
}

}  // namespace torch_pjrt::cache
