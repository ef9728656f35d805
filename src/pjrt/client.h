// A running PJRT client: devices, buffers from host memory, and the compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/type.h"
#include "pjrt/api.h"
#include "pjrt/buffer.h"
#include "pjrt/compile_options.h"
#include "pjrt/event.h"
#include "pjrt/executable.h"
#include "pjrt/host_memory.h"
#include "pjrt/plugin.h"

namespace torch_pjrt::pjrt {

// An option of the plugin's client; which there are is the plugin's affair.
struct ClientOption {
  std::string name;
  std::variant<bool, int64_t, float, std::string, std::vector<int64_t>> value;

  bool operator==(const ClientOption&) const = default;
};

// What the plugin may do with the host memory that a buffer is made from, and for how long.
enum class HostSemantics {
  // It copies before the call returns.
  kImmutableOnlyDuringCall,
  // It reads until the transfer is complete.
  kImmutableUntilTransferCompletes,
  // It may read from the memory for the life of the buffer and of the calls that use it.
  kImmutableZeroCopy,
  // The same, and a program that the buffer is donated to may write its output there.
  kMutableZeroCopy,
};

// Any thread may use it. It outlives its buffers, executables and events.
class Client {
  struct Private {};

 public:
  static std::unique_ptr<Client> create(std::shared_ptr<const Plugin> plugin,
                                        const std::vector<ClientOption>& options = {});
  Client(Private, std::shared_ptr<const Plugin> plugin, PJRT_Client* client);

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Plugin& plugin() const { return *plugin_; }
  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  // Kind of the device that programs run on, which is the first addressable one.
  const std::string& device_kind() const { return device_kind_; }
  // Number of devices that this process can use.
  size_t device_count() const { return device_count_; }

  // For calls of the plugin that have no function here, e.g. those of its extensions.
  PJRT_Client* get() const { return client_.get(); }
  PJRT_Device* device() const { return device_; }

  // Compiles a StableHLO module. Throws Error(kPlugin) with the compiler's message, which has
  // line:column where the text is at fault.
  std::unique_ptr<Executable> compile(std::string_view stablehlo_text,
                                      const CompileOptions& options) const;

  // Loads what Executable::serialize() gave. The plugin may take damaged bytes, or those of another
  // processor, for a program and run them: it is the caller's to know where they come from. Throws
  // Error(kPlugin) where the plugin refuses them.
  std::unique_ptr<Executable> deserialize(std::string_view bytes) const;

  // Makes a buffer from dense row-major memory. `data` may be null if the type has no elements. A
  // zero-copy buffer is a copy after all where the plugin can't use the memory as it is (see
  // kHostAlignment). `done`, if given, becomes the event after which the plugin no longer uses the
  // memory; without it a transfer is waited for.
  Buffer from_host(const void* data, const Type& type, HostSemantics semantics,
                   Event* done = nullptr) const;

  // Found at the first call, then kept.
  HostMemory host_memory() const;

 private:
  const Api& api() const { return client_.get_deleter().api; }

  std::shared_ptr<const Plugin> plugin_;
  std::unique_ptr<PJRT_Client, Deleter<&PJRT_Api::PJRT_Client_Destroy>> client_;
  PJRT_Device* device_ = nullptr;
  size_t device_count_ = 0;
  std::string platform_name_;
  std::string platform_version_;
  std::string device_kind_;
  mutable std::once_flag host_memory_once_;
  mutable HostMemory host_memory_;
};

}  // namespace torch_pjrt::pjrt
