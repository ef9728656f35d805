#include "base/hash.h"

#include <algorithm>
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
  for (size_t i = 0; i < content.size(); i += sizeof(lanes)) {
    // What is missing at the end counts as zero.
    std::array<uint64_t, 4> words = {};
    std::memcpy(words.data(), content.data() + i, std::min(sizeof(words), content.size() - i));
    for (size_t k = 0; k < lanes.size(); ++k) {
      lanes[k] = std::rotl((lanes[k] ^ words[k]) * kPrime, 29);
    }
  }
  uint64_t joined = 0;
  for (const uint64_t lane : lanes) joined = std::rotl((joined ^ lane) * kPrime, 31);
  return joined;
}

}  // namespace torch_pjrt
