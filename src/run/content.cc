#include "run/content.h"

#include <algorithm>

#include "base/hash.h"

namespace torch_pjrt::run {
namespace {

// A thread's task: more than a wake-up costs, and small enough that all threads end together.
constexpr size_t kPieceBytes = size_t{256} << 10;

std::string_view bytes_of(std::span<const uint64_t> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

}  // namespace

std::vector<uint64_t> hashes(std::span<const std::string_view> memory, Workers& workers) {
  std::vector<std::string_view> pieces;
  std::vector<size_t> ends;  // of each memory's pieces
  for (const std::string_view m : memory) {
    for (size_t at = 0; at < m.size(); at += kPieceBytes)
      pieces.push_back(m.substr(at, kPieceBytes));
    ends.push_back(pieces.size());
  }
  std::vector<uint64_t> of_pieces(pieces.size());
  workers.run(pieces.size(), [&](size_t k) { of_pieces[k] = hash(pieces[k]); });
  std::vector<uint64_t> result;
  size_t begin = 0;
  for (const size_t end : ends) {
    result.push_back(hash(bytes_of(std::span(of_pieces).subspan(begin, end - begin))));
    begin = end;
  }
  return result;
}

}  // namespace torch_pjrt::run
