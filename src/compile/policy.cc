#include "compile/policy.h"

#include <utility>

namespace torch_pjrt::compile {

thread_local std::optional<Policy> Policies::of_thread_;

std::optional<Policy> Policies::exchange_of_thread(std::optional<Policy> policy) {
  return std::exchange(of_thread_, policy);
}

}  // namespace torch_pjrt::compile
