// What pass `fuse` may join: groups of ops of a local program that one kernel
// can compute.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "simulator/cost_model.h"

namespace asyra {

// Indices of ops, ascending. The fusion takes the place of the last one.
using FusionCluster = std::vector<int>;

struct ClusterOptions {
  int most_ops = 16;  // of a cluster
  // Only of costs that were measured, or are between such.
  bool measured_only = false;
};

// Disjoint clusters of two ops and more, grown along the values that ops pass
// to one another. Ops are those whose definition says that they go element by
// element or reduce rows (OpDef::fusable). In a cluster
//   all go over the same rows, or over what the one row reduction leaves;
//   at most one reduces rows;
//   none is computed twice, and nobody outside reads a value before the last
//   of the ops stood, so that the order of the text stays good; none moves
//   across a barrier;
//   nothing that could be computed while a collective runs waits for its
//   result, unless that costs the ops behind it nothing;
//   the cost is below that of its parts; without costs, the bytes are.
std::vector<FusionCluster> FindClusters(const Program& program,
                                        const CostModel* costs,
                                        const ClusterOptions& options = {});

// By op, the last collective whose result it needs, directly or not; -1: none.
std::vector<int> CollectivesBefore(const Program& program,
                                   const DefUse& def_use);

// The ops as one fusion; what is read elsewhere, or given, is its results.
Op FusionOf(const Program& program, const DefUse& def_use,
            const FusionCluster& cluster);

}  // namespace asyra
