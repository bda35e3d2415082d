// What is published of NCCL's own model of its collectives.
#pragma once

#include <vector>

#include "simulator/machine.h"

namespace asyra {

// The protocols NCCL chooses among, over that kind of link. `ll_gbps` is the
// bus bandwidth that its low-latency protocol never passes on this kind of
// GPU. Source: the latencies and efficiencies of NCCL's tuning model
// (src/graph/tuning.cc, 2026).
std::vector<Protocol> NcclProtocols(LinkKind link, double ll_gbps);

// What is left of a tree's bandwidth at that payload: trees of few large
// pieces do not fill their pipeline.
double TreeFraction(double payload_bytes);

}  // namespace asyra
