#include "pjrt/client.h"

#include "pjrt/element_type.h"

namespace torch_pjrt::pjrt {
namespace {

// Fills in the value of a PJRT_NamedValue, which refers to the option's memory.
struct SetValue {
  PJRT_NamedValue& named;

  void operator()(bool value) {
    named.type = PJRT_NamedValue_kBool;
    named.bool_value = value;
    named.value_size = 1;
  }
  void operator()(int64_t value) {
    named.type = PJRT_NamedValue_kInt64;
    named.int64_value = value;
    named.value_size = 1;
  }
  void operator()(float value) {
    named.type = PJRT_NamedValue_kFloat;
    named.float_value = value;
    named.value_size = 1;
  }
  void operator()(const std::string& value) {
    named.type = PJRT_NamedValue_kString;
    named.string_value = value.c_str();
    named.value_size = value.size();
  }
  void operator()(const std::vector<int64_t>& value) {
    named.type = PJRT_NamedValue_kInt64List;
    named.int64_array_value = value.data();
    named.value_size = value.size();
  }
};

PJRT_NamedValue named_value(const ClientOption& option) {
  PJRT_NamedValue named = {};
  named.struct_size = sizeof(named);
  named.name = option.name.c_str();
  named.name_size = option.name.size();
  std::visit(SetValue{named}, option.value);
  return named;
}

PJRT_HostBufferSemantics to_pjrt(HostSemantics semantics) {
  switch (semantics) {
    case HostSemantics::kImmutableOnlyDuringCall:
      return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    case HostSemantics::kImmutableUntilTransferCompletes:
      return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    case HostSemantics::kImmutableZeroCopy:
      return PJRT_HostBufferSemantics_kImmutableZeroCopy;
    case HostSemantics::kMutableZeroCopy:
      return PJRT_HostBufferSemantics_kMutableZeroCopy;
  }
  fail(Code::kInternal, "from_host: no such host semantics: ", static_cast<int>(semantics));
}

}  // namespace

std::unique_ptr<Client> Client::create(std::shared_ptr<const Plugin> plugin,
                                       const std::vector<ClientOption>& options) {
  // What is made has to be destroyed some day.
  plugin->api()
      .require<&PJRT_Api::PJRT_Client_Create, &PJRT_Api::PJRT_Client_Destroy,
               &PJRT_Api::PJRT_Event_Destroy, &PJRT_Api::PJRT_Buffer_Destroy,
               &PJRT_Api::PJRT_Executable_Destroy, &PJRT_Api::PJRT_LoadedExecutable_Destroy>();
  std::vector<PJRT_NamedValue> values;
  for (const ClientOption& option : options) values.push_back(named_value(option));
  const auto args = plugin->api().call<&PJRT_Api::PJRT_Client_Create>(
      {.create_options = values.data(), .num_options = values.size()});
  return std::make_unique<Client>(Private(), std::move(plugin), args.client);
}

Client::Client(Private, std::shared_ptr<const Plugin> plugin, PJRT_Client* client)
    : plugin_(std::move(plugin)), client_(client, {plugin_->api()}) {
  const auto platform = api().call<&PJRT_Api::PJRT_Client_PlatformName>({.client = client});
  platform_name_.assign(platform.platform_name, platform.platform_name_size);
  const auto version = api().call<&PJRT_Api::PJRT_Client_PlatformVersion>({.client = client});
  platform_version_.assign(version.platform_version, version.platform_version_size);

  const auto devices = api().call<&PJRT_Api::PJRT_Client_AddressableDevices>({.client = client});
  if (devices.num_addressable_devices == 0) {
    fail(Code::kPlugin, "PJRT plugin ", plugin_->path(), ": platform ", platform_name_,
         " has no device that this process can use; check that the hardware is there and free");
  }
  device_ = devices.addressable_devices[0];
  device_count_ = devices.num_addressable_devices;
  auto* description =
      api().call<&PJRT_Api::PJRT_Device_GetDescription>({.device = device_}).device_description;
  const auto kind =
      api().call<&PJRT_Api::PJRT_DeviceDescription_Kind>({.device_description = description});
  device_kind_.assign(kind.device_kind, kind.device_kind_size);
}

std::unique_ptr<Executable> Client::compile(std::string_view stablehlo_text,
                                            const CompileOptions& options) const {
  constexpr std::string_view kFormat = "mlir";
  PJRT_Program program = {};
  program.struct_size = sizeof(program);
  program.code = const_cast<char*>(stablehlo_text.data());  // the plugin only reads it
  program.code_size = stablehlo_text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  const std::string bytes = serialize(options);
  const auto args =
      api().call<&PJRT_Api::PJRT_Client_Compile>({.client = client_.get(),
                                                  .program = &program,
                                                  .compile_options = bytes.data(),
                                                  .compile_options_size = bytes.size()});
  return std::make_unique<Executable>(api(), args.executable);
}

std::unique_ptr<Executable> Client::deserialize(std::string_view bytes) const {
  const auto args = api().call<&PJRT_Api::PJRT_Executable_DeserializeAndLoad>(
      {.client = client_.get(),
       .serialized_executable = bytes.data(),
       .serialized_executable_size = bytes.size()});
  return std::make_unique<Executable>(api(), args.loaded_executable);
}

Buffer Client::from_host(const void* data, const Type& type, HostSemantics semantics,
                         Event* done) const {
  if (!data && type.num_elements() != 0) {
    fail(Code::kInvalid, "from_host: null data for ", to_string(type),
         ", which has elements; pass their address");
  }
  const auto args = api().call<&PJRT_Api::PJRT_Client_BufferFromHostBuffer>(
      {.client = client_.get(),
       .data = data,
       .type = pjrt::to_pjrt(type.dtype),
       .dims = type.dims.data(),
       .num_dims = type.dims.size(),
       .host_buffer_semantics = to_pjrt(semantics),
       .device = device_});
  Buffer buffer(api(), args.buffer);
  Event event(api(), args.done_with_host_buffer);
  if (done) {
    *done = std::move(event);
  } else if (semantics == HostSemantics::kImmutableUntilTransferCompletes) {
    event.await();
  }
  return buffer;
}

HostMemory Client::host_memory() const {
  std::call_once(host_memory_once_, [this] { host_memory_ = probe_host_memory(*this); });
  return host_memory_;
}

}  // namespace torch_pjrt::pjrt
