// Where every value is: offsets into one arena for each device.
//
// What stays from step to step is outside of the arena and has no offset:
// inputs of every role, constants, and outputs that may be written over the
// state that they replace. Of the rest, values share bytes where happens-before
// orders them, so that streams need no more order than the program gives them;
// results of ops that work in place are on an operand that dies there.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Scheduled to allocated. Remarks the bytes of the arena beside the most that
// are in use at once, and what is outside.
absl::StatusOr<bool> PlanMemoryPass(Program& program,
                                    const PassOptions& options,
                                    PassContext& context);

}  // namespace asyra
