// What has happened since the start or the last reset, in numbers.
#pragma once

#include <atomic>
#include <cstdint>

namespace torch_pjrt::run {

// executions == compiles + memory_hits + disk_hits - warmups: each execution either compiled its
// program or found it.
struct Counts {
  int64_t captures = 0;     // graphs that a front end handed over
  int64_t lowerings = 0;    // programs made from a graph
  int64_t compiles = 0;     // executions that compiled their program first
  int64_t executions = 0;   // PJRT Execute calls
  int64_t memory_hits = 0;  // executions whose program was there
  int64_t disk_hits = 0;    // executions that loaded their program from disk first
  int64_t warmups = 0;      // of compiles and disk_hits: ahead of any execution
  int64_t evictions = 0;    // programs that left the memory for want of room
  int64_t disk_faults = 0;  // entries that were refused, and programs that couldn't be stored
  int64_t host_to_device_bytes = 0;
  int64_t device_to_host_bytes = 0;
  int64_t fallbacks = 0;       // ops that PyTorch ran because no program could
  int64_t copied_inputs = 0;   // inputs that couldn't be passed as they lie in memory
  int64_t donated_inputs = 0;  // saved tensors whose memory results of a backward took
  int64_t relaid_inputs = 0;   // weights that were copied into another memory order
  int64_t relaid_bytes = 0;    // of such copies that are kept now; a reset leaves it
};

class Stats {
 public:
  void add(std::atomic<int64_t> Stats::* counter, int64_t n = 1) {
    (this->*counter).fetch_add(n, std::memory_order_relaxed);
  }
  Counts snapshot() const {
    return {captures,
            lowerings,
            compiles,
            executions,
            memory_hits,
            disk_hits,
            warmups,
            evictions,
            disk_faults,
            host_to_device_bytes,
            device_to_host_bytes,
            fallbacks,
            copied_inputs,
            donated_inputs,
            relaid_inputs,
            relaid_bytes};
  }
  void reset() {
    for (auto* counter :
         {&captures, &lowerings, &compiles, &executions, &memory_hits, &disk_hits, &warmups,
          &evictions, &disk_faults, &host_to_device_bytes, &device_to_host_bytes, &fallbacks,
          &copied_inputs, &donated_inputs, &relaid_inputs}) {
      *counter = 0;
    }
  }

  std::atomic<int64_t> captures = 0;
  std::atomic<int64_t> lowerings = 0;
  std::atomic<int64_t> compiles = 0;
  std::atomic<int64_t> executions = 0;
  std::atomic<int64_t> memory_hits = 0;
  std::atomic<int64_t> disk_hits = 0;
  std::atomic<int64_t> warmups = 0;
  std::atomic<int64_t> evictions = 0;
  std::atomic<int64_t> disk_faults = 0;
  std::atomic<int64_t> host_to_device_bytes = 0;
  std::atomic<int64_t> device_to_host_bytes = 0;
  std::atomic<int64_t> fallbacks = 0;
  std::atomic<int64_t> copied_inputs = 0;
  std::atomic<int64_t> donated_inputs = 0;
  std::atomic<int64_t> relaid_inputs = 0;
  std::atomic<int64_t> relaid_bytes = 0;
};

}  // namespace torch_pjrt::run
