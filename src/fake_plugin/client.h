// The client, its devices and their one memory.
#pragma once

#include <pjrt_c_api.h>

#include <memory>
#include <string>
#include <vector>

#include "fake_plugin/counted.h"

struct PJRT_DeviceDescription {
  int id = 0;
  std::string text;
};

struct PJRT_Device {
  PJRT_Client* client = nullptr;
  PJRT_DeviceDescription description;
};

struct PJRT_Memory {
  PJRT_Client* client = nullptr;
};

// How the plugin behaves would be decided here, from the client's options.
struct PJRT_Client : torch_pjrt::fake::Counted<PJRT_Client> {
  std::vector<std::unique_ptr<PJRT_Device>> devices;
  std::vector<PJRT_Device*> device_list;
  PJRT_Memory memory;
  std::vector<PJRT_Memory*> memory_list;
};
