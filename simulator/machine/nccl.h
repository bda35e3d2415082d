// The published parts of NCCL's own model of its collectives.
#pragma once

#include <vector>

#include "simulator/machine/machine.h"

namespace asyra {

// The protocols NCCL chooses among, over that kind of link. `ll_gbps` is the
// bus bandwidth that its low-latency protocol never passes on this kind of
// GPU. Source: the latencies and efficiencies of NCCL's tuning model
// (src/graph/tuning.cc, 2026).
std::vector<Protocol> NcclProtocols(LinkKind link, double ll_gbps);

// The fraction of its bandwidth that a tree reaches at that payload: few pieces
// do not fill its pipeline.
double TreeFraction(double payload_bytes);

}  // namespace asyra
