// Rows of a table found by index (ir/ops/{embed,gather}.cc) on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Rows of a table [outer, size, row_bytes], picked along the middle by
// `indices` integers: [outer, indices, row_bytes].
struct Lookup {
  Element index = Element::kI64;
  int64_t indices = 0, outer = 1;
  int64_t size = 0;  // rows that this rank holds
  int64_t row_bytes = 0;
  // Rows are numbered over all ranks, negative ones from the end: those from
  // `start` on are here, `total` is all of them; another rank's give zeros.
  int64_t start = 0, total = 0;
};

// An index out of range gives a row with all bits set: NaN, or -1.
cudaError_t LookUp(const Lookup& lookup, const void* table, const void* indices,
                   void* to, cudaStream_t stream);

}  // namespace asyra::cuda
