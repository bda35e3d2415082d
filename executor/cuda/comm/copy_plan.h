// Chunk plans between GPUs. Messages of exchanges are NCCL's, between any of
// them. Where the GPUs of one host reach each other's memory, copy engines
// carry copies from one to another, and the streams of queues wait for flags in
// memory (peer_flags.h), those of one GPU for events. All of it can be
// captured.
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
#include "executor/cuda/device/cuda_status.h"

namespace asyra::cuda {

struct CopyPlanOptions {
  int ordinal = 0;  // of this rank's GPU
  // Resources of this rank; they outlive the link. Null for a plan with
  // exchanges, in which no copy or signal is between ranks.
  const PeerMemory* memory = nullptr;
  PeerFlags* flags = nullptr;
  // The members in their order, for exchanges; else null.
  ncclComm_t comm = nullptr;
};

// Enqueues the messages of a rank as one group of NCCL's calls.
absl::Status ExchangeMessages(const ExchangeCall& call, ncclComm_t comm,
                              cudaStream_t stream);

// Peer access between the members' GPUs is enabled. Errors: flags that are used
// up; a plan that copies from another GPU: in a graph, such copies run on
// connections of that GPU, whose own graph may wait there for this one (seen on
// H200).
absl::StatusOr<std::unique_ptr<PlanLink>> MakeCopyPlan(const PlanUse& use,
                                                       CopyPlanOptions options);

}  // namespace asyra::cuda
