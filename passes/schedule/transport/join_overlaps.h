// Overlaps of several weights' gradients, each scattered to its owner: what
// others need of all of them is computed first, and own shards last, so that
// what comes from others is available when own pieces add it
// (PlanShape::sums_in_pieces). One gradient alone would wait for it.
#pragma once

#include <vector>

#include "ir/program.h"
#include "passes/schedule/transport/overlap_choice.h"
#include "passes/schedule/transport/put_overlaps.h"

namespace asyra {

// Returns overlaps of neighbours among the sites of reductions, in program
// order: those that are faster as one overlap than their computation and what
// their collectives compute, as if all transfers were hidden already. Each site
// is in one of them at most.
std::vector<FormedOverlap> JoinedOverlaps(const Program& program,
                                          std::vector<OverlapSite> sites,
                                          OverlapChoice& choice);

}  // namespace asyra
