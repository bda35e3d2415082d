// Joins ops that pass elements to one another into one kernel: chains element
// by element with what they broadcast, and one row reduction before, within or
// behind them (residual add and rms_norm, bias and gelu, casts). What is
// between them is then neither written nor read again.
//
// Matmuls take up what libraries compute with them (ir/epilogue.h):
// bias, residual, activation. This goes before the rest, which gets what is
// left, and is decided by what the program takes after both: a residual that a
// matmul adds is not added by the norm behind it.
//
// It runs on the local program, once collectives are explicit and before the
// program is cut into tiles: so the simulator, the search for a schedule and
// the program it is measured against all cost what will run, tiles cut fusions
// as they cut ops, by their axis rule, and tiles of a fusion are merged again.
// The strategy of collectives around norms is chosen before, by partition, and
// each one is fused for itself.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Options: max_ops (int, default 16), of one fusion; measured_only (bool,
// default false), nothing whose cost nobody measured; epilogues (measured,
// estimated or none, default measured), matmuls whose cost with what
// follows them was measured, all that have a cost, none. fusion_clusters.h and
// epilogue_clusters.h say what may be one. Where there are costs, fusions of
// one kind are made only if the program, simulated unscheduled, is then faster
// and needs no more memory.
absl::StatusOr<bool> Fuse(Program& program, const PassOptions& options,
                          PassContext& context);

}  // namespace asyra
