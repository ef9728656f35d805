#include "fake_plugin/strict.h"

#include <array>
#include <mutex>
#include <vector>

#include "fake_plugin/client.h"

namespace torch_pjrt::fake {
namespace {

std::mutex mutex;

// Looks at the end of the process for what no call in flight can need. The objects of a client that
// is still there are not leaks: its owner may have been made to outlive everything.
class AtExit {
 public:
  ~AtExit() {
    if (shells_.empty()) return;  // nothing was strict
    for (const Kind kind : {Kind::kEvent, Kind::kError}) {
      if (const int64_t live = Object::live(kind); live != 0) {
        die("at exit ", live, " objects of kind ", name(kind), " were never destroyed");
      }
    }
  }

  void keep(std::shared_ptr<void> shell) {
    const std::lock_guard lock(mutex);
    shells_.push_back(std::move(shell));
  }

 private:
  std::vector<std::shared_ptr<void>> shells_;
};

// Made when the plugin is loaded, and so destroyed after what its user makes later.
AtExit at_exit;

}  // namespace

void keep_shell(std::shared_ptr<void> shell) { at_exit.keep(std::move(shell)); }

void check_client_leaks(const PJRT_Client& client) {
  if (!client.is_strict()) return;
  for (const Kind kind : {Kind::kBuffer, Kind::kEvent, Kind::kExecutable}) {
    if (const int64_t live = client.live[static_cast<size_t>(kind)]; live != 0) {
      die("PJRT_Client_Destroy: ", live, " objects of kind ", name(kind), " were never destroyed");
    }
  }
}

}  // namespace torch_pjrt::fake
