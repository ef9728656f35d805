// A plugin's client, and the compile options that suit its platform.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "compile/log.h"
#include "pjrt/client.h"

namespace torch_pjrt::compile {

// With as many threads as the plugin needs. XLA's CPU client shows four devices unless told
// otherwise, and starts a thread for each: on fewer processors they wait for one another, and each
// keeps memory of its own.
std::unique_ptr<const pjrt::Client> make_client(const std::shared_ptr<const pjrt::Plugin>& plugin);

// Any thread may use it.
class Device {
 public:
  explicit Device(std::unique_ptr<const pjrt::Client> client) : client_(std::move(client)) {}

  const pjrt::Client& client() const { return *client_; }

  // The user's overrides, then our defaults for the platform that the user doesn't set.
  std::vector<pjrt::Override> overrides(const std::vector<pjrt::Override>& user) const;

  // Compiles with overrides(user). A default that this build of the plugin doesn't know is left out
  // from then on, and said so in the log.
  std::unique_ptr<pjrt::Executable> compile(const std::string& text,
                                            const std::vector<pjrt::Override>& user,
                                            const Log& log);

 private:
  bool is_refused(const std::string& name) const;
  void refuse(const std::string& name);

  std::unique_ptr<const pjrt::Client> client_;
  mutable std::mutex mutex_;
  std::set<std::string> refused_;  // names of defaults
};

}  // namespace torch_pjrt::compile
