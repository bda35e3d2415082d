// The clock of a step that is repeated for seconds: the limiter of a GPU
// averages over tens of ms, so that a step has one clock, the highest at which
// it draws no more than the limit.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "simulator/cost/op_cost.h"
#include "simulator/machine/machine.h"
#include "simulator/replay/costed_program.h"

namespace asyra {

OpEnergy SumOfEnergies(absl::Span<const OpCost> op_costs);

// The mean power of a step that takes `us` at this clock.
double WattsAt(const GpuPower& power, const OpEnergy& energy, double mhz,
               double us);

// Returns the highest clock at which a step draws at most `cap_w`, or 1e-5 of
// it more; one that is too low for any work if there is none. `us_at`: the time
// of the step at a clock, not longer at a higher one.
double StepClock(const GpuPower& power, const OpEnergy& energy,
                 absl::FunctionRef<double(double mhz)> us_at);

// Estimates, without a replay, how long a step takes at its own clock if its
// makespan at the clock of `costed` is `us`: as if arithmetic were never
// hidden. Returns `us` where the costs have no clock, and more for a larger
// `us`.
double UsAtItsClock(const CostedProgram& costed, double us);

}  // namespace asyra
