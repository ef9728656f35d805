// Devices, their descriptions, and the one memory space that they share.
#include <string_view>

#include "fake_plugin/client.h"
#include "fake_plugin/table.h"

namespace torch_pjrt::fake {
namespace {

constexpr std::string_view kDeviceKind = "fake";
constexpr std::string_view kMemoryKind = "unpinned_host";

void add_descriptions(Table& table) {
  table.add<&PJRT_Api::PJRT_DeviceDescription_Id>(
      [](auto& args) { args.id = args.device_description->id; });
  table.add<&PJRT_Api::PJRT_DeviceDescription_ProcessIndex>(
      [](auto& args) { args.process_index = 0; });
  table.add<&PJRT_Api::PJRT_DeviceDescription_Attributes>([](auto& args) {
    args.attributes = nullptr;
    args.num_attributes = 0;
  });
  table.add<&PJRT_Api::PJRT_DeviceDescription_Kind>([](auto& args) {
    args.device_kind = kDeviceKind.data();
    args.device_kind_size = kDeviceKind.size();
  });
  table.add<&PJRT_Api::PJRT_DeviceDescription_DebugString>([](auto& args) {
    args.debug_string = args.device_description->text.data();
    args.debug_string_size = args.device_description->text.size();
  });
  table.add<&PJRT_Api::PJRT_DeviceDescription_ToString>([](auto& args) {
    args.to_string = args.device_description->text.data();
    args.to_string_size = args.device_description->text.size();
  });
}

void add_devices(Table& table) {
  table.add<&PJRT_Api::PJRT_Device_GetDescription>(
      [](auto& args) { args.device_description = &args.device->description; });
  table.add<&PJRT_Api::PJRT_Device_IsAddressable>([](auto& args) { args.is_addressable = true; });
  table.add<&PJRT_Api::PJRT_Device_LocalHardwareId>(
      [](auto& args) { args.local_hardware_id = args.device->description.id; });
  table.add<&PJRT_Api::PJRT_Device_AddressableMemories>([](auto& args) {
    args.memories = args.device->client->memory_list.data();
    args.num_memories = args.device->client->memory_list.size();
  });
  table.add<&PJRT_Api::PJRT_Device_DefaultMemory>(
      [](auto& args) { args.memory = &args.device->client->memory; });
}

void add_memories(Table& table) {
  table.add<&PJRT_Api::PJRT_Memory_Id>([](auto& args) { args.id = 0; });
  table.add<&PJRT_Api::PJRT_Memory_Kind>([](auto& args) {
    args.kind = kMemoryKind.data();
    args.kind_size = kMemoryKind.size();
  });
  table.add<&PJRT_Api::PJRT_Memory_Kind_Id>([](auto& args) { args.kind_id = 0; });
  table.add<&PJRT_Api::PJRT_Memory_DebugString>([](auto& args) {
    args.debug_string = kMemoryKind.data();
    args.debug_string_size = kMemoryKind.size();
  });
  table.add<&PJRT_Api::PJRT_Memory_ToString>([](auto& args) {
    args.to_string = kMemoryKind.data();
    args.to_string_size = kMemoryKind.size();
  });
  table.add<&PJRT_Api::PJRT_Memory_AddressableByDevices>([](auto& args) {
    args.devices = args.memory->client->device_list.data();
    args.num_devices = args.memory->client->device_list.size();
  });
}

}  // namespace

void add_device_functions(Table& table) {
  add_descriptions(table);
  add_devices(table);
  add_memories(table);
}

}  // namespace torch_pjrt::fake
