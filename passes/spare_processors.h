// Room for collectives beside products. On GPUs whose products hold every
// processor until they are done (Gpu::gemm_stays) the thread blocks of a
// collective that comes meanwhile wait as long; beside products that spare
// some processors they begin at once. Where each byte takes long, on a network
// or through a host's memory, few blocks keep up with it, and what products
// lose is little.
#pragma once

#include "ir/program.h"
#include "simulator/cost_model.h"

namespace asyra {

// How many processors are tried.
inline constexpr int kSpared[] = {8, 16};

// Every product spares so many processors, and collectives that the library
// carries get as many thread blocks at most; those whose thread blocks are
// given stay as they are. The library carries what copy engines would leave a
// sum of, which needs more room than is spared. Returns how many products
// spare; 0, and nothing is changed, where the machine's products do not stay or
// nothing needs room.
int SpareProcessors(Program& program, const CostModel& costs, int processors);

// Products spare no more where no such collective can run beside them: of a
// scheduled program in its final order.
void SpareOnlyBesideCollectives(Program& program);

}  // namespace asyra
