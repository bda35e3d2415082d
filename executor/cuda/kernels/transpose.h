// Copies that turn neighbours in a column into neighbours in a row, through
// shared memory, so that both sides are read and written in whole lines.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace asyra::cuda {

inline constexpr int kMostTransposeBatches = 4;

// Element (g..., a, b) is at a + b * from_b of `from`, and at a * to_a + b of
// `to`, beside what the batch dimensions add. All in elements.
struct Transpose {
  int64_t a = 0, b = 0;
  int64_t from_b = 0, to_a = 0;
  int batches = 0;
  int64_t batch[kMostTransposeBatches] = {};
  int64_t from_batch[kMostTransposeBatches] = {};
  int64_t to_batch[kMostTransposeBatches] = {};
};

// Elements of 1, 2, 4 or 8 bytes. Both addresses are aligned to 16 bytes and
// the memory does not overlap.
cudaError_t TransposeElements(const Transpose& transpose, int64_t element_bytes,
                              const void* from, void* to, cudaStream_t stream);

}  // namespace asyra::cuda
