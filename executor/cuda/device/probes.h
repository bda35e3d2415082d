// Probes of values on a GPU (executor/device.h) as functions that enqueue.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Written by the first probe that finds something.
struct ProbeResult {
  int32_t probe = 0;     // its number; 0: nothing is found
  int64_t element = -1;  // which is not finite; -1: the bytes have changed
  double value = 0;      // of the element
};

// Looks for a NaN or an infinity among `count` elements of a float type.
cudaError_t CheckFinite(Element element, const void* data, int64_t count,
                        int probe, ProbeResult* result, cudaStream_t stream);

// Adds a checksum of the bytes, whose order counts, to *sum in device memory.
cudaError_t AddChecksum(const void* data, int64_t bytes, uint64_t* sum,
                        cudaStream_t stream);

// Finds that two checksums in device memory differ.
cudaError_t CompareChecksums(const uint64_t* sealed, const uint64_t* now,
                             int probe, ProbeResult* result,
                             cudaStream_t stream);

}  // namespace asyra::cuda
