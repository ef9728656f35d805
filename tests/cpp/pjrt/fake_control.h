// The fake plugin's own functions, as a test calls them.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "fake_plugin/control.h"

namespace torch_pjrt::pjrt {

class FakeControl {
 public:
  explicit FakeControl(const std::string& path)
      : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)),
        fail_at(find<decltype(torch_pjrt_fake_fail_at)>("torch_pjrt_fake_fail_at")),
        fail_with(find<decltype(torch_pjrt_fake_fail_with)>("torch_pjrt_fake_fail_with")),
        delay(find<decltype(torch_pjrt_fake_delay)>("torch_pjrt_fake_delay")),
        set(find<decltype(torch_pjrt_fake_set)>("torch_pjrt_fake_set")),
        set_api(find<decltype(torch_pjrt_fake_set_api)>("torch_pjrt_fake_set_api")),
        calls(find<decltype(torch_pjrt_fake_calls)>("torch_pjrt_fake_calls")),
        live(find<decltype(torch_pjrt_fake_live)>("torch_pjrt_fake_live")),
        running(find<decltype(torch_pjrt_fake_running)>("torch_pjrt_fake_running")),
        reset(find<decltype(torch_pjrt_fake_reset)>("torch_pjrt_fake_reset")),
        function(find<decltype(torch_pjrt_fake_function)>("torch_pjrt_fake_function")) {}

  // Counts of all kinds of objects.
  std::vector<int64_t> all_live() const {
    return {live("buffer"), live("event"), live("executable"), live("client"), live("error")};
  }

 private:
  template <class Function>
  Function* find(const char* name) const {
    void* symbol = library_ ? dlsym(library_, name) : nullptr;
    if (!symbol) throw std::runtime_error(std::string("not in the fake plugin: ") + name);
    return reinterpret_cast<Function*>(symbol);
  }

  void* library_;

 public:
  decltype(torch_pjrt_fake_fail_at)* fail_at;
  decltype(torch_pjrt_fake_fail_with)* fail_with;
  decltype(torch_pjrt_fake_delay)* delay;
  decltype(torch_pjrt_fake_set)* set;
  decltype(torch_pjrt_fake_set_api)* set_api;
  decltype(torch_pjrt_fake_calls)* calls;
  decltype(torch_pjrt_fake_live)* live;
  decltype(torch_pjrt_fake_running)* running;
  decltype(torch_pjrt_fake_reset)* reset;
  decltype(torch_pjrt_fake_function)* function;
};

}  // namespace torch_pjrt::pjrt
