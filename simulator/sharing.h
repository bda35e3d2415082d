// What ops that run together leave each other.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "simulator/cost_model.h"

namespace asyra {

// How many times as long computation takes on a share of the SMs, in (0, 1].
// `waves` are the blocks of a matmul over all SMs (OpCost::waves): they run in
// whole waves, so that 1.6 waves lose nothing on 0.8 of the SMs, and 2.0 a
// third wave. 0 waves: in proportion.
double SlowdownOn(double share, double waves);

// The speed of each active op, in the order in which their kernels came,
// relative to running alone, in [0, 1]. A kernel gets the CTA slots that
// earlier ones leave, which may be none; a collective finds none
// while persistent kernels fill the GPU (OpCost::persistent). All else is
// shared max-min fair: all speeds rise together until a resource is full; the
// ops that use it stay there and the others rise on. Collectives hold their
// SMs: computation has the rest of them. A collective beside computation keeps
// at most the share `beside_compute` of its speed, more where the computation
// leaves SMs free.
struct ActiveOp {
  const OpCost* cost;
  // A kernel of it is there: false while a collective does without.
  bool has_kernel = true;
};
void ShareResources(absl::Span<const ActiveOp> active,
                    std::vector<double>* speeds);

}  // namespace asyra
