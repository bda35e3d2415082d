// A collective of a program as calls of NCCL.
#pragma once

#include <memory>

#include "executor/comm/collective_geometry.h"
#include "executor/cuda/device/cuda_kernel.h"

namespace asyra::cuda {

// `comm` connects the members of the use's group in their order, of whom this
// rank is number `self`, and outlives the kernel. Error: an element type that
// NCCL cannot reduce.
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareNcclCollective(
    const CollectiveUse& use, int self, ncclComm_t comm);

}  // namespace asyra::cuda
