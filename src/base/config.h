// What the environment says: the only place that reads it.
#pragma once

#include <string>

namespace torch_pjrt::config {

// TORCH_PJRT_PLUGIN: path of the plugin to use where the program names none; empty if not set.
std::string plugin_path();

// XLA_FLAGS, which a plugin made from XLA reads; part of every program's key.
std::string xla_flags();

}  // namespace torch_pjrt::config
