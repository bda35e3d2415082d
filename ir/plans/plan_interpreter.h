// Runs a chunk plan on host tensors, queues in random turns: any order that the
// plan allows may come.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/plans/chunk_plan.h"
#include "ir/tensor.h"

namespace asyra {

struct RunPlanOptions {
  uint64_t seed = 0;
  int connections = 0;  // as VerifyPlanOptions has it
};

// `operands` by rank, then operand: what each rank holds. Returns by rank, then
// result. Memory that nothing was written to holds NaN, or large integers.
// Errors: a deadlock, which names a step, and those of the ops.
absl::StatusOr<std::vector<std::vector<Tensor>>> RunPlan(
    const ChunkPlan& plan, absl::Span<const std::vector<Tensor>> operands,
    const RunPlanOptions& options = {});

}  // namespace asyra
