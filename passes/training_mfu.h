// The model flop utilization of a training step.
#pragma once

#include "ir/program.h"
#include "simulator/machine/machine.h"

namespace asyra {

// Returns the share of the devices' dense peak that the step needs for the
// matrix flops of forward and backward: each matmul once however it is sharded,
// nothing of the update; attention with the pairs that its mask leaves, and for
// its gradient twice that of forward; nothing that is computed again.
// simulator/README.md has the formula.
double TrainingMfu(const Program& program, const Machine& machine,
                   double makespan_us);

}  // namespace asyra
