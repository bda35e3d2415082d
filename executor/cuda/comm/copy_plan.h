// Chunk plans between GPUs of one host that reach each other's memory: copy
// engines carry what goes from one to another, and the streams of queues wait
// for flags in memory (peer_flags.h), those of one GPU for events. All of it
// can be captured.
//
// Every post of a step has a flag of its own at the GPU that waits, which
// clears it; the verifier proves that it is not set again before
// (ir/plans/verify_plan.h).
//
// A GPU has fewer hardware connections than streams, and than graphs have
// branches. What shares one runs in any order that events allow, so that a wait
// could hold up what the other GPU needs before it posts. So a wait also comes,
// by events, behind all posts that are issued before it. Plans are proven to
// run where all steps of a rank are on one connection in order of issue, and
// then they run here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/comm/plan_link.h"
#include "executor/cuda/comm/peer_flags.h"
#include "executor/cuda/comm/peer_memory.h"

namespace asyra::cuda {

struct CopyPlanOptions {
  int ordinal = 0;  // of this rank's GPU
  // Resources of this rank; they outlive the link.
  const PeerMemory* memory = nullptr;
  PeerFlags* flags = nullptr;
};

// Peer access between the members' GPUs is enabled. Errors: flags that are used
// up; a plan that copies from another GPU: in a graph, such copies run on
// connections of that GPU, whose own graph may wait there for this one (seen on
// H200).
absl::StatusOr<std::unique_ptr<PlanLink>> MakeCopyPlan(const PlanUse& use,
                                                       CopyPlanOptions options);

}  // namespace asyra::cuda
