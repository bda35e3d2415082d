// The op's own reference (ir/ops), computed by the host between two copies, in
// the order of the stream: the last resort of an op that has no kernel, slow
// and reported. An op without operands is computed once, and copied.
#pragma once

#include "executor/cuda/device/cuda_kernel.h"

namespace asyra::cuda {

// Unimplemented for an op without a reference.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareHostKernel(const KernelUse& use);

}  // namespace asyra::cuda
