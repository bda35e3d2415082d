// An overlap as a kernel: the steps of this rank in its chunk plan
// (ir/plans/chunk_plan.h). Pieces are kernels of the device for the ops of the
// body, at their places in operands, results and workspace; everything between
// the ranks is the communicator's (executor/comm/plan_link.h).
//
// The queue that computes is the stream that the kernel is launched on; the
// others are Kernel::queues(). A box that kernels do not take where it is is
// packed in the workspace (ir/plans/plan_packing.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/comm/communicator.h"
#include "executor/device.h"

namespace asyra {

// `use` is of an overlap, `members` are the ranks of its group, of which this
// rank is one. Device and communicator, which carries plans, outlive the
// kernel.
// Errors: those of PlanOf and of the device's kernels; several queues that
// compute.
absl::StatusOr<std::unique_ptr<Kernel>> PreparePlanKernel(
    const KernelUse& use, std::vector<int64_t> members, Device& device,
    Communicator& world);

}  // namespace asyra
