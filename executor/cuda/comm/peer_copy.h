// Copies by copy engine into, or from, the memory of another GPU.
#pragma once

#include "executor/cuda/kernels/strided_copy.h"
#include "ir/support/status.h"

namespace asyra::cuda {

// Enqueues it as copies of rows with a pitch, few long ones where loops are
// contiguous on both sides. Errors: those of CUDA.
absl::Status CopyByEngine(const StridedCopy& copy, const void* from, void* to,
                          cudaStream_t stream);

}  // namespace asyra::cuda
