// What all objects of the plugin have in common: they are counted by kind, and those of a strict
// client outlive their destruction as a shell, by which a later use of them is found.
#pragma once

#include <pjrt_c_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace torch_pjrt::fake {

enum class Kind : uint8_t { kBuffer, kEvent, kExecutable, kClient, kError };
inline constexpr size_t kNumKinds = 5;

// "buffer", "event", "executable", "client" or "error".
const char* name(Kind kind);
std::optional<Kind> kind_of(std::string_view name);

class Object {
 public:
  // Of a client, which is strict or not and, if it is, counts its objects too.
  Object(Kind kind, PJRT_Client* client);
  // Of none.
  Object(Kind kind, bool strict) : kind_(kind), strict_(strict), client_(nullptr) { count(1); }
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  Kind kind() const { return kind_; }
  PJRT_Client* client() const { return client_; }
  bool is_strict() const { return strict_; }
  bool is_destroyed() const { return destroyed_.load(std::memory_order_relaxed); }

  // Of a strict object: it isn't counted any more, and may not be used.
  void set_destroyed();

  // Number of objects of a kind that were made and not destroyed.
  static int64_t live(Kind kind);

 private:
  void count(int64_t change);

  Kind kind_;
  bool strict_;
  std::atomic<bool> destroyed_{false};
  PJRT_Client* client_;
};

}  // namespace torch_pjrt::fake
