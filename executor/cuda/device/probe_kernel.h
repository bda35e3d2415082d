// Probes as kernels, and the device memory that they use.
#pragma once

#include <map>
#include <memory>

#include "executor/cuda/device/cuda_kernel.h"
#include "executor/cuda/device/probe_results.h"
#include "executor/device.h"

namespace asyra::cuda {

// The probes of one device, which is current in every call.
class Probes {
 public:
  static absl::StatusOr<std::unique_ptr<Probes>> Create();
  ~Probes();

  ProbeResults& probe_results() { return *probe_results_; }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const ProbeUse& use);

 private:
  Probes() = default;
  // Device memory for a checksum.
  absl::StatusOr<uint64_t*> NewCell();

  std::unique_ptr<ProbeResults> probe_results_;
  // Device cells by the host's cell, which names what is sealed and verified.
  std::map<const uint64_t*, uint64_t*> sealed_;
  std::vector<void*> blocks_;
  int cells_left_ = 0;
};

}  // namespace asyra::cuda
