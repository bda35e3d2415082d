// Reports what a kernel finds to the host (executor/cuda/device/probes.h).
#pragma once

#include "executor/cuda/device/probes.h"

namespace asyra::cuda {

// Keeps the first report of a rank.
__device__ inline void ReportFinding(ProbeResult* result, int probe,
                                     int64_t element, double value) {
  if (atomicCAS_system(&result->probe, 0, probe) != 0) return;
  result->element = element;
  result->value = value;
  __threadfence_system();
}

}  // namespace asyra::cuda
