// The GPUs of this host, how they are connected, and what drivers let programs
// do with them: what decides whether communication can hide behind computation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace asyra {

// The state of a GPU. Fields that only NVML knows say so where it cannot be
// asked.
struct GpuState {
  std::string name;  // "NVIDIA H200"
  std::string bus;   // "0000:1B:00.0"
  int64_t memory_bytes = 0;
  int sms = 0;
  int copy_engines = 0;
  bool multicast = false;  // NVLink multicast, which NVLS uses, is supported
  // Memory can be handed to other processes: as file descriptors, by CUDA's
  // virtual memory, or as handles of its older interface.
  bool exports_descriptors = false, exports_handles = false;
  // -1: not known.
  int ecc = -1, mig = -1, persistence = -1;
  int nvlinks = -1;  // that are up
  int sm_clock_mhz = -1, sm_clock_most_mhz = -1;
  std::string slowed;  // what holds the clocks back; empty: nothing, unknown
};

struct GpuPair {
  int a = 0, b = 0;   // a < b
  bool peer = false;  // each reaches the memory of the other
  std::string link;   // "NVLink", "PCIe, one switch", ...; "" if not known
};

struct GpuSystem {
  std::string driver;     // "580.65.06, CUDA 13.0"; without NVML only CUDA's
  std::string libraries;  // as CudaDeviceInfo has it
  std::string nvml;       // why NVML cannot be asked; empty: it was
  std::vector<GpuState> gpus;
  std::vector<GpuPair> pairs;
};

// Makes no context and reserves no memory: it may run beside other programs.
// Errors: as CountCudaDevices; Unimplemented in a build without CUDA.
absl::StatusOr<GpuSystem> DescribeGpus();

}  // namespace asyra
