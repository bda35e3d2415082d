// Matmuls of a local program with what follows them, as far as
// libraries compute it with the matmul (ir/epilogue.h).
#pragma once

#include <vector>

#include "passes/fuse/fusion_clusters.h"

namespace asyra {

// Disjoint clusters of a matmul and one to `most_ops` - 1 ops behind it, each
// the only reader of the one before, as long as it goes. A cluster without its
// last op is one as well, down to two ops. None is partial, none moves across a
// barrier, and no matmul waits for a collective that only what is added to it
// needs.
std::vector<FusionCluster> FindEpilogues(const Program& program, int most_ops);

}  // namespace asyra
