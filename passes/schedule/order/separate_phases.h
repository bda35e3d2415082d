// With tiles, the order may run backward of one tile beside forward of another,
// as microbatches of a pipeline do. This keeps the phases of a training step
// apart instead: in forward, tiles then hide each other's collectives.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Moves what is not forward (train/step_phase.h) behind all of forward in
// program order, and has it begin `after` forward has ended. False if the
// program, which is scheduled, is no training step or was separated before.
bool SeparatePhases(Program& program);

// The pass.
absl::StatusOr<bool> SeparatePhasesPass(Program& program,
                                        const PassOptions& options,
                                        PassContext& context);

}  // namespace asyra
