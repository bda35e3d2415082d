#include "executor/cuda/comm/peer_copy.h"

#include <cstddef>
#include <utility>

#include "executor/cuda/device/cuda_status.h"

namespace asyra::cuda {
namespace {

// Joins loops over runs that are contiguous on both sides.
StridedCopy Joined(StridedCopy copy) {
  if (copy.from_middle == copy.run_bytes && copy.to_middle == copy.run_bytes) {
    copy.run_bytes *= copy.middle;
    copy.middle = 1;
    if (copy.from_outer == copy.run_bytes && copy.to_outer == copy.run_bytes) {
      copy.run_bytes *= copy.outer;
      copy.outer = 1;
    }
  } else if (copy.from_outer == copy.middle * copy.from_middle &&
             copy.to_outer == copy.middle * copy.to_middle) {
    copy.middle *= copy.outer;
    copy.outer = 1;
  }
  return copy;
}

absl::Status CopyBlock(StridedCopy copy, const std::byte* from, std::byte* to,
                       cudaStream_t stream) {
  // The longer loop is the copy's own.
  if (copy.outer > copy.middle) {
    std::swap(copy.outer, copy.middle);
    std::swap(copy.from_outer, copy.from_middle);
    std::swap(copy.to_outer, copy.to_middle);
  }
  for (int64_t i = 0; i < copy.outer; ++i) {
    if (copy.middle == 1) {
      ASYRA_CUDA(
          cudaMemcpyAsync(to, from, copy.run_bytes, cudaMemcpyDefault, stream));
    } else {
      ASYRA_CUDA(cudaMemcpy2DAsync(to, copy.to_middle, from, copy.from_middle,
                                   copy.run_bytes, copy.middle,
                                   cudaMemcpyDefault, stream));
    }
    from += copy.from_outer;
    to += copy.to_outer;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyByEngine(const StridedCopy& copy, const void* from, void* to,
                          cudaStream_t stream) {
  StridedCopy block = Joined(copy);
  const auto* at = static_cast<const std::byte*>(from);
  auto* into = static_cast<std::byte*>(to);
  for (int64_t b = 0; b < copy.blocks; ++b) {
    ASYRA_RETURN_IF_ERROR(CopyBlock(block, at + b * copy.from_block,
                                    into + b * copy.to_block, stream));
  }
  return absl::OkStatus();
}

}  // namespace asyra::cuda
