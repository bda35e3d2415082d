// In which order a rank issues the steps of its queues.
//
// A device may have fewer hardware connections than a plan has queues. What
// shares one then runs one after the other, and a wait holds up what is issued
// behind it: first should come what other ranks need first. Plans that are
// issued in the order in which their steps would end at some speed, over all
// ranks, run with any number of connections.
#pragma once

#include "ir/plans/chunk_plan.h"

namespace asyra {

// Orders the steps of each rank so, for a device that takes as long for its
// pieces in all as for its copies; steps of a queue keep their order, and of
// steps that end together those of the first queue come first. Nothing
// changes if the plan cannot run.
void OrderOfIssue(ChunkPlan* plan);

}  // namespace asyra
