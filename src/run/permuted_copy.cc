#include "run/permuted_copy.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"

namespace torch_pjrt::run {
namespace {

// Elements along the target's last dim that are written together, so that the cache lines that they
// are read from are used up before they go.
constexpr int64_t kTile = 32;

struct Loop {
  int64_t size;
  int64_t from_stride;
  int64_t to_stride;  // in elements
};

// The target's dims but those of size 1.
std::vector<Loop> loops_of(const Type& type, const std::vector<int64_t>& order) {
  const Dims from_strides = contiguous_strides(type.dims);
  std::vector<Loop> loops;
  int64_t to_stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const int64_t size = type.dims[order[k]];
    if (size != 1) loops.push_back({size, from_strides[order[k]], to_stride});
    to_stride *= size;
  }
  if (loops.empty()) loops.push_back({1, 1, 1});
  return loops;  // the last dim first
}

template <class T>
void copy(const T* from, T* to, std::span<const Loop> outer, const Loop& last) {
  if (!outer.empty()) {
    const Loop& loop = outer.front();
    for (int64_t i = 0; i < loop.size; ++i) {
      copy(from + i * loop.from_stride, to + i * loop.to_stride, outer.subspan(1), last);
    }
  } else if (last.from_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(last.size) * sizeof(T));
  } else {
    for (int64_t i = 0; i < last.size; ++i) to[i] = from[i * last.from_stride];
  }
}

template <class T>
void copy_by_tiles(const void* from, void* to, std::vector<Loop> loops) {
  const Loop last = loops.front();
  loops.erase(loops.begin());
  // The source is read forwards.
  std::ranges::sort(loops, std::ranges::greater(), &Loop::from_stride);
  const int64_t tile = last.from_stride == 1 ? last.size : kTile;
  for (int64_t start = 0; start < last.size; start += tile) {
    const Loop part{std::min(tile, last.size - start), last.from_stride, 1};
    copy(static_cast<const T*>(from) + start * last.from_stride, static_cast<T*>(to) + start, loops,
         part);
  }
}

}  // namespace

void permuted_copy(const void* from, void* to, const Type& type,
                   const std::vector<int64_t>& order) {
  if (type.num_elements() == 0) return;
  const std::vector<Loop> loops = loops_of(type, order);
  struct Wide {
    uint64_t parts[2];
  };
  switch (type.num_bytes() / type.num_elements()) {
    case 1:
      return copy_by_tiles<uint8_t>(from, to, loops);
    case 2:
      return copy_by_tiles<uint16_t>(from, to, loops);
    case 4:
      return copy_by_tiles<uint32_t>(from, to, loops);
    case 8:
      return copy_by_tiles<uint64_t>(from, to, loops);
    case 16:
      return copy_by_tiles<Wide>(from, to, loops);
    default:
      fail(Code::kInternal, "no permuted copy of ", to_string(type));
  }
}

}  // namespace torch_pjrt::run
