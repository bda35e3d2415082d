// Copies of contiguous runs of bytes between two strided layouts within a GPU:
// packing, unpacking and self-copies of collectives, and copies of ops.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace asyra::cuda {

// Run (b, o, m), of `blocks` x `outer` x `middle` runs of `run_bytes`, begins
// at b * block + o * outer + m * middle of either side, in bytes.
struct StridedCopy {
  int64_t blocks = 1, outer = 1, middle = 1;
  int64_t run_bytes = 0;
  int64_t from_block = 0, from_outer = 0, from_middle = 0;
  int64_t to_block = 0, to_outer = 0, to_middle = 0;
};

// Returns whether both sides are contiguous, in the same order.
bool IsPlain(const StridedCopy& copy);

enum class CopyPace : uint8_t {
  kFull,
  // Takes a fourth longer but uses a part of each SM, so that other kernels
  // find free CTA slots at once.
  kAside,
};
cudaError_t CopyStrided(const StridedCopy& copy, const void* from, void* to,
                        cudaStream_t stream, CopyPace pace = CopyPace::kFull);

}  // namespace asyra::cuda
