// Copies of boxes of tensors (ir/plans/chunk_plan.h) as strided copies.
#pragma once

#include <cstddef>
#include <vector>

#include "executor/comm/plan_link.h"
#include "executor/cuda/kernels/strided_copy.h"

namespace asyra::cuda {

// One of the copies that a box takes, and the bytes where it begins.
struct StridedCopyAt {
  StridedCopy copy;
  const std::byte* from;
  std::byte* to;
};

// Inner dimensions that are whole in both tensors are one run, three loops are
// a copy's own, and the rest is several copies.
std::vector<StridedCopyAt> StridedCopiesOf(const BoxCopy& box);

}  // namespace asyra::cuda
