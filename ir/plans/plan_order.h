// The order of what has none by meaning: scratch memory of a rank, and posts or
// waits that follow each other on one queue.
#pragma once

#include "ir/plans/chunk_plan.h"

namespace asyra {

// Orders them by what they are to a rank, and not by the numbers of ranks, so
// that ranks that do the same say the same (ir/plans/plan_text.h). What is
// awaited first is posted first. Scratch gets new offsets, buffers that share
// memory share it.
void OrderAlike(ChunkPlan* plan);

}  // namespace asyra
