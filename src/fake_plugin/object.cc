#include "fake_plugin/object.h"

#include <array>

#include "fake_plugin/client.h"

namespace torch_pjrt::fake {
namespace {

constexpr std::array<const char*, kNumKinds> kNames = {"buffer", "event", "executable", "client",
                                                       "error"};

std::array<std::atomic<int64_t>, kNumKinds> all_live;

}  // namespace

const char* name(Kind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<Kind> kind_of(std::string_view name) {
  for (size_t i = 0; i < kNumKinds; ++i) {
    if (name == kNames[i]) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

Object::Object(Kind kind, PJRT_Client* client)
    : kind_(kind), strict_(client->modes.strict), client_(client) {
  count(1);
}

Object::~Object() {
  if (!is_destroyed()) count(-1);
}

void Object::set_destroyed() {
  destroyed_.store(true, std::memory_order_relaxed);
  count(-1);
}

int64_t Object::live(Kind kind) { return all_live[static_cast<size_t>(kind)]; }

void Object::count(int64_t change) {
  all_live[static_cast<size_t>(kind_)] += change;
  // A strict client is never freed, so it is there even after its destruction.
  if (strict_ && client_) client_->live[static_cast<size_t>(kind_)] += change;
}

}  // namespace torch_pjrt::fake
