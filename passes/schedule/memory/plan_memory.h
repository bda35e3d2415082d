// Memory planning: an offset for every value in one arena for each device.
//
// Values that stay from step to step are outside the arena and have no offset:
// inputs of every role, constants, and outputs written over the state that they
// replace. Other values share bytes where happens-before orders them, so that
// streams need no additional order. Results of ops that work in place overwrite
// an operand that dies there, unless the step fits the device only where they
// do not. An arena within 1/128 of the bytes in use at once
// is good enough, unless the step fits the device only with a smaller one.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Scheduled to allocated. Option: memory_gib (float, as CapacityBytes takes it;
// without costs there is no device to fit). A remark gives the bytes of the
// arena, the largest sum in use at once, and the bytes outside.
absl::StatusOr<bool> PlanMemoryPass(Program& program,
                                    const PassOptions& options,
                                    PassContext& context);

}  // namespace asyra
