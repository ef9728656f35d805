// The client, its devices and their one memory.
#pragma once

#include <pjrt_c_api.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "fake_plugin/late.h"
#include "fake_plugin/modes.h"
#include "fake_plugin/object.h"

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

struct PJRT_Client : torch_pjrt::fake::Object {
  explicit PJRT_Client(const torch_pjrt::fake::Modes& modes)
      : Object(torch_pjrt::fake::Kind::kClient, modes.strict), modes(modes) {
    if (modes.late_ms > 0) late = std::make_unique<torch_pjrt::fake::LateEnds>(modes.late_ms);
  }

  const torch_pjrt::fake::Modes modes;
  std::unique_ptr<torch_pjrt::fake::LateEnds> late;  // null: executions end at once
  std::vector<std::unique_ptr<PJRT_Device>> devices;
  std::vector<PJRT_Device*> device_list;
  PJRT_Memory memory;
  std::vector<PJRT_Memory*> memory_list;
  // Of a strict client: its objects by kind.
  std::array<std::atomic<int64_t>, torch_pjrt::fake::kNumKinds> live = {};
};
