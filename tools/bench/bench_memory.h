// Measures what libraries take of a GPU's memory, for a machine (LibraryMemory
// of simulator/machine/machine.h).
#pragma once

#include "executor/bench/collective_timer.h"
#include "simulator/machine/machine.h"

namespace asyra {

// MiB in use on `device` with the libraries of matmuls and attention loaded,
// and what a program's streams and kernels add; 0 where it does not tell.
// Nothing else may use it. Errors: what cannot be computed.
absl::StatusOr<double> ContextMib(Device& device);

// Measures what the collective library takes besides: everything but the
// context, ops and the workspace. Runs on all ranks, two at least, which have
// not carried anything yet. Errors: those of collectives, naming the call.
absl::StatusOr<LibraryMemory> MeasureCollectiveMemory(RankTimer& timer,
                                                      int ranks);

}  // namespace asyra
