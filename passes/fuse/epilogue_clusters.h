// Matmuls of a local program with the ops that libraries can compute as their
// epilogue (ir/gpu/epilogue.h).
#pragma once

#include <vector>

#include "passes/fuse/fusion_clusters.h"

namespace asyra {

// Finds disjoint clusters of a matmul and one to `most_ops` - 1 ops after it,
// each the only reader of the one before, as long as possible. A cluster
// without its last op is also valid, down to two ops. No value is partial, no
// op moves across a barrier, and no matmul waits for a collective that only its
// epilogue needs.
std::vector<FusionCluster> FindEpilogues(const Program& program, int most_ops);

}  // namespace asyra
