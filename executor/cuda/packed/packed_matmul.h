// Matmuls of packed rows (ir/ops/packed_rows.cc) on Hopper's tensor cores.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/cuda/device/cuda_kernel.h"
#include "executor/cuda/kernels/packed_rows.h"

namespace asyra::cuda {

// Prepares packed_matmul, or packed_wgrad, on so many SMs. Error:
// Unimplemented, with the reason, where it cannot compute the use: elements of
// other than 16 bits, rows that do not begin at multiples of 16 bytes, too many
// experts, another GPU.
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareHopperPacked(
    const PackedProblem& problem, int sms);

}  // namespace asyra::cuda
