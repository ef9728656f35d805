#include "fake_plugin/client.h"

#include <string_view>

#include "fake_plugin/buffer.h"
#include "fake_plugin/executable.h"
#include "fake_plugin/strict.h"
#include "fake_plugin/table.h"

namespace torch_pjrt::fake {
namespace {

constexpr std::string_view kPlatformName = "fake";
constexpr std::string_view kPlatformVersion = "fake 1";

void create_client(PJRT_Client_Create_Args& args) {
  auto client = std::make_unique<PJRT_Client>(client_modes(args));
  for (int64_t i = 0; i < client->modes.devices; ++i) {
    auto device = std::make_unique<PJRT_Device>();
    device->client = client.get();
    device->description = {static_cast<int>(i), "FakeDevice(id=" + std::to_string(i) + ")"};
    client->device_list.push_back(device.get());
    client->devices.push_back(std::move(device));
  }
  client->memory.client = client.get();
  client->memory_list.push_back(&client->memory);
  args.client = client.release();
}

PJRT_Device* find_device(const PJRT_Client& client, int id) {
  for (PJRT_Device* device : client.device_list) {
    if (device->description.id == id) return device;
  }
  fail(PJRT_Error_Code_INVALID_ARGUMENT, "fake plugin: no device ", id);
}

}  // namespace

void add_client_functions(Table& table) {
  table.add<&PJRT_Api::PJRT_Client_Create>([](auto& args) { create_client(args); });
  table.add_destructor<&PJRT_Api::PJRT_Client_Destroy>([](auto& args) {
    if (args.client) check_client_leaks(*args.client);
    destroy(args.client);
  });
  table.add<&PJRT_Api::PJRT_Client_PlatformName>([](auto& args) {
    args.platform_name = kPlatformName.data();
    args.platform_name_size = kPlatformName.size();
  });
  table.add<&PJRT_Api::PJRT_Client_ProcessIndex>([](auto& args) { args.process_index = 0; });
  table.add<&PJRT_Api::PJRT_Client_PlatformVersion>([](auto& args) {
    args.platform_version = kPlatformVersion.data();
    args.platform_version_size = kPlatformVersion.size();
  });
  table.add<&PJRT_Api::PJRT_Client_Devices>([](auto& args) {
    args.devices = args.client->device_list.data();
    args.num_devices = args.client->device_list.size();
  });
  table.add<&PJRT_Api::PJRT_Client_AddressableDevices>([](auto& args) {
    args.addressable_devices = args.client->device_list.data();
    args.num_addressable_devices = args.client->device_list.size();
  });
  table.add<&PJRT_Api::PJRT_Client_LookupDevice>(
      [](auto& args) { args.device = find_device(*args.client, args.id); });
  table.add<&PJRT_Api::PJRT_Client_LookupAddressableDevice>([](auto& args) {
    args.addressable_device = find_device(*args.client, args.local_hardware_id);
  });
  table.add<&PJRT_Api::PJRT_Client_AddressableMemories>([](auto& args) {
    args.addressable_memories = args.client->memory_list.data();
    args.num_addressable_memories = args.client->memory_list.size();
  });
  table.add<&PJRT_Api::PJRT_Client_Compile>([](auto& args) { compile(args); });
  table.add<&PJRT_Api::PJRT_Client_BufferFromHostBuffer>(
      [](auto& args) { buffer_from_host(args); });
}

}  // namespace torch_pjrt::fake
