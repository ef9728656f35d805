// The bytes of a file of the cache: a header with a checksum, a key, and the key's value.
#pragma once

#include <string>
#include <string_view>

#include "cache/key.h"

namespace torch_pjrt::cache {

// The name of the file of the key with these bytes, in whatever folder.
std::string entry_name(std::string_view key_bytes);

std::string to_entry(const Key& key, std::string_view value);

// Views of an entry's bytes. `damage`: what is wrong with them, or "".
struct EntryView {
  std::string damage;
  std::string_view key;  // Key::bytes()
  std::string_view value;
};

EntryView view_entry(std::string_view entry);

}  // namespace torch_pjrt::cache
