// Facts about what this host lets a process do, as far as ranks that are
// processes need it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "executor/cpu/cpu_info.h"

namespace asyra {

struct HostFacts {
  CpuInfo cpu;
  std::string system;         // "Linux 6.1.0-17-amd64"
  int64_t memory_bytes = 0;   // of the host
  bool container = false;     // it looks like one
  int64_t shm_bytes = 0;      // of /dev/shm, what is free; 0: there is none
  int64_t memlock_bytes = 0;  // bytes that may be locked; -1: no limit
  bool traces = false;        // may read the memory of other processes
  bool realtime = false;      // may raise the priority of threads
  // The reason why another process cannot be handed a file; empty: it can.
  std::string no_descriptors;
  bool mpi = false;   // the build has it
  std::string gemm;   // the library of matmuls of the cpu
  std::string cache;  // folder; empty: nothing is kept
  // NCCL_..., CUDA_... and ASYRA_... that are set.
  std::vector<std::pair<std::string, std::string>> environment;
};

// Starts a process for a moment.
HostFacts DescribeHost();

}  // namespace asyra
