// A kept copy of an input that changes rarely, in the memory order that the program reads best.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/type.h"
#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "run/stats.h"

namespace torch_pjrt::run {

// Any thread may use it; the client outlives it.
class Relaid {
 public:
  // The copy's dim k is dim `order[k]` of the input, which is dense memory of type `type`.
  // `is_frozen`: the copy is taken to stay right for as long as the input stays where it is.
  Relaid(const pjrt::Client& client, Type type, std::vector<int64_t> order, bool is_frozen,
         Stats& stats);
  ~Relaid();

  class Copy;
  // What of the memory at `data` decides whether the copy is still right: nothing if it is frozen.
  std::string_view content(const void* data) const;
  // The copy of what lies at `data`, made anew where the memory's address or `hash`, which is
  // content(data)'s, is another than last time's. A call holds it until it ends.
  std::shared_ptr<const Copy> get(const void* data, uint64_t hash);

 private:
  const pjrt::Client& client_;
  Type type_;
  std::vector<int64_t> order_;
  bool is_frozen_;
  Stats& stats_;
  std::mutex mutex_;
  std::shared_ptr<const Copy> copy_;
};

class Relaid::Copy {
 public:
  Copy(const Relaid& relaid, const void* source, uint64_t hash);

  PJRT_Buffer* buffer() const { return buffer_->get(); }
  bool is_of(const void* source, uint64_t hash) const { return source_ == source && hash_ == hash; }

 private:
  struct Free {
    void operator()(void* memory) const;
  };

  const void* source_;
  uint64_t hash_;  // of the source's content()
  std::unique_ptr<void, Free> memory_;
  std::optional<pjrt::Buffer> buffer_;  // over memory_, or a copy of it
};

}  // namespace torch_pjrt::run
