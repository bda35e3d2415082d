// Lengths of the rows of a mask, checked (ir/ops/mask_lengths.h).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"
#include "executor/cuda/device/probes.h"

namespace asyra::cuda {

struct MaskRows {
  Element element = Element::kI64;
  int64_t rows = 0, size = 0, least = 0;
};

// Writes the ones of each row to `lengths`. Reports a row that is not ones,
// then zeros, or has fewer than `least`, as finding `number`: the element
// counted over all rows, and its value.
cudaError_t MaskLengths(const MaskRows& mask, const void* data,
                        int32_t* lengths, int number, ProbeResult* result,
                        cudaStream_t stream);

}  // namespace asyra::cuda
