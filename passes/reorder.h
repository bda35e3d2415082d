// Orders a scheduled program so that the lanes of a tiled program hide each
// other's collectives.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Segmented round robin (ASYRA 3.3.2, Algorithm 1): a segment of a lane ends
// where the lane must wait; the open segments of the lanes are issued in turn.
// While one lane waits, the others compute, and at most one segment a lane is
// in flight, so operands die with their segment. Returns op indices.
std::vector<int> SegmentedRoundRobin(const Program& program);

// The program's ops in that order, which must be a permutation that keeps
// definitions before uses.
void ApplyOrder(Program& program, const std::vector<int>& order);

// The pass: options scheduler = "segrr" or "serial" (as it stands).
absl::StatusOr<bool> Reorder(Program& program, const PassOptions& options,
                             PassContext& context);

}  // namespace asyra
