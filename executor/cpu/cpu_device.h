// The cpu as a device: streams are threads, device memory is host memory.
#pragma once

#include <memory>

#include "executor/device.h"

namespace asyra {

struct CpuDeviceOptions {
  // Threads that the kernels of one stream use; 0: all cores. Ranks that are
  // threads of one process share the cores between them.
  int threads_per_stream = 0;
  // Limit of allocated bytes; 0: the machine's memory.
  int64_t memory_bytes = 0;
};

// One device serves any number of executors and ranks of a process.
std::unique_ptr<Device> CreateCpuDevice(const CpuDeviceOptions& options = {});

}  // namespace asyra
