#include "base/hash.h"

#include <array>
#include <bit>
#include <cstring>

namespace torch_pjrt {

std::string hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string hex(uint64_t value) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return hex(std::string_view(bytes));
}

uint64_t hash(std::string_view content) {
  // Four lanes, since one multiplication waits for the one before it; plugins have 250 MB and more.
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15;
  std::array<uint64_t, 4> lanes = {1, 2, 3, 4};
  const auto take = [&](const char* from, size_t size) {
    std::array<uint64_t, 4> words = {};
    std::memcpy(words.data(), from, size);
    for (size_t k = 0; k < lanes.size(); ++k) {
      lanes[k] = std::rotl((lanes[k] ^ words[k]) * kPrime, 29);
    }
  };
  const size_t rest = content.size() % sizeof(lanes);
  const char* const end = content.data() + (content.size() - rest);
  for (const char* at = content.data(); at != end; at += sizeof(lanes)) take(at, sizeof(lanes));
  if (rest > 0) take(end, rest);  // what is missing counts as zero
  uint64_t joined = 0;
  for (const uint64_t lane : lanes) joined = std::rotl((joined ^ lane) * kPrime, 31);
  return joined;
}

}  // namespace torch_pjrt
