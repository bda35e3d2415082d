// Joins ops that pass elements to one another into one kernel: chains element
// by element with what they broadcast, and one row reduction before, within or
// after them (residual add and rms_norm, bias and gelu, casts). Intermediate
// values are then neither written nor read.
//
// Matmuls get as epilogue what libraries compute with them (ir/gpu/epilogue.h):
// bias, residual, activation. This comes before the other fusions, and the
// whole program is compared after both: a residual that a matmul adds is no
// longer added by the norm after it.
//
// Gradients of norms add what a residual connection adds to them
// (norm_residuals.h).
//
// It runs on the local program, when collectives are explicit and before the
// program is cut into tiles. So the schedule search and its baseline are
// estimated with the kernels that will run. Tiles cut fusions by their axis
// rule, like ops, and tiles of a fusion can be merged again. The strategy of
// collectives around norms is chosen before, by partition; the program of each
// strategy is fused separately.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Options: max_ops (int, default 32), of one fusion; measured_only (bool,
// default false), only fusions with a measured cost; epilogues (measured,
// estimated or none, default measured): matmuls whose cost with the epilogue
// was measured, any, or none. fusion_clusters.h and epilogue_clusters.h define
// legal clusters. With a cost model, fusions of one kind are made only if the
// program, simulated unscheduled, is then faster and needs no more memory.
absl::StatusOr<bool> Fuse(Program& program, const PassOptions& options,
                          PassContext& context);

}  // namespace asyra
