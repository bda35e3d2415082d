// One rank's end of a world of GPUs. NCCL moves the data; the control plane
// (how NCCL is found, what the ranks agree on, that one has failed) is another
// communicator, between host processes or threads.
#pragma once

#include <memory>

#include "executor/comm/communicator.h"

namespace asyra {

struct NcclWorldOptions {
  int ordinal = 0;  // of the GPU, whose device the collectives are for
  // A step that takes longer has lost a rank.
  double timeout_s = 60;
};

// All ranks of `control`, which outlives it, call it together. The groups of a
// program get NCCL communicators of their own when its collectives are
// prepared, one for each set of axes and budget of CTAs (the attribute `ctas`).
//
// Chunks that are not contiguous in memory are packed before or unpacked after
// the collective, on its stream, in its workspace. Sums are NCCL's: equal on
// all ranks that get the whole, in an order that depends on the algorithm.
//
// Collectives with `transport=copy_engine` are carried by copy engines where
// all ranks are threads of one process on GPUs that reach each other's memory;
// by NCCL elsewhere.
//
// A failure of another rank, of NCCL or of the timeout shows in Check; Abort
// ends what waits on the GPU.
// Errors: NCCL's; two ranks on one GPU.
absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclWorld(
    Communicator& control, const NcclWorldOptions& options);

}  // namespace asyra
