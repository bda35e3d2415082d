// What ops that run together leave each other.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "simulator/cost_model.h"

namespace asyra {

// The speed of each active op relative to running alone, in (0, 1]. Max-min
// fair: all speeds rise together until a resource is full; the ops that use it
// stay there and the others rise on. A collective beside computation keeps at
// most the share `beside_compute` of its speed, less so where the computation
// leaves SMs free.
void ShareResources(absl::Span<const OpCost* const> active,
                    std::vector<double>* speeds);

}  // namespace asyra
