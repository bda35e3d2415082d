// Clusters for pass `fuse`: groups of ops of a local program that one kernel
// can compute.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

// Indices of ops, ascending. The fusion replaces the last one.
using FusionCluster = std::vector<int>;

struct ClusterOptions {
  int most_ops = 32;  // of a cluster
  // True: only clusters whose cost was measured or interpolated.
  bool measured_only = false;
};

// Finds disjoint clusters of two ops and more, grown along the values between
// ops. Candidates are ops that are elementwise or reduce rows (OpDef::fusable).
// In a cluster
//   all ops work on the same rows, or on the result of the one row reduction;
//   at most one op reduces rows;
//   partial values occur only if each op is linear in all of its operands;
//   no op is computed twice, no op outside reads a value before the last of the
//   ops, so that program order stays legal, and none moves across a
//   barrier;
//   an op that could run while a collective runs waits for its result only if
//   nothing before needs it, and if the ops behind it end later by at most a
//   tenth of what is saved;
//   the cost is below that of its parts; without costs, the bytes are.
std::vector<FusionCluster> FindClusters(const Program& program,
                                        const CostModel* costs,
                                        const ClusterOptions& options = {});

// Returns, by op, the last collective that it depends on, directly or not; -1:
// none. Collectives of parameters and states alone do not count: they may start
// with the step.
std::vector<int> CollectivesBefore(const Program& program,
                                   const DefUse& def_use);

// Returns the ops as one fusion; its results are the values that are read
// elsewhere or are outputs.
Op FusionOf(const Program& program, const DefUse& def_use,
            const FusionCluster& cluster);

}  // namespace asyra
