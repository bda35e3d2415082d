// A collective that copy engines carry: each member writes its chunks straight
// into the memory of the others, which takes no CTAs from what is
// computed beside it. Sums are then taken on the GPU that owns them.
//
// For members that are threads of one process, on GPUs that reach each other's
// memory. Two meetings on the device (peer_flags.h) hold it together, or three
// where sums are sent back.
#pragma once

#include <memory>

#include "executor/comm/collective_geometry.h"
#include "executor/cuda/comm/peer_flags.h"
#include "executor/cuda/device/cuda_kernel.h"

namespace asyra::cuda {

struct CopyCollectiveOptions {
  int self = 0;  // which of the members this rank is
  // Tells all ranks of the world something; each calls it equally often.
  std::function<absl::StatusOr<std::vector<std::string>>(std::string_view)>
      exchange;
  PeerFlags* flags = nullptr;  // of this rank's GPU; outlives the kernel
};

// Of a collective that copy engines can carry (ir/copy_engine.h); peer access
// between the members' GPUs is enabled. Errors: those of CUDA.
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCopyCollective(
    const CollectiveUse& use, CopyCollectiveOptions options);

}  // namespace asyra::cuda
