// One rank's end of a world of GPUs. NCCL moves the data; the control plane
// (NCCL's bootstrap, agreement between ranks, failures) is another
// communicator, between host processes or threads.
#pragma once

#include <memory>

#include "executor/comm/communicator.h"

namespace asyra {

struct NcclWorldOptions {
  int ordinal = 0;  // of the GPU, whose device the collectives are for
  // A step that takes longer has lost a rank.
  double timeout_s = 60;
  // Overlaps run as their chunk plans say (copy_plan.h): by copy engines, where
  // collectives could be carried by them, or by messages of NCCL.
  bool chunk_plans = true;
};

// All ranks of `control`, which outlives it, call it together. The groups of a
// program get NCCL communicators of their own when its collectives are
// prepared, one for each set of axes and number of CTAs (the attribute `ctas`).
//
// Chunks that are not contiguous in memory are packed before or unpacked after
// the collective, on its stream, in its workspace. NCCL reduces, in an order
// that depends on its algorithm; all ranks that get the same result get equal
// bytes.
//
// Collectives with `transport=copy_engine` are carried by copy engines in
// groups of one host where all GPUs of a host reach each other's memory; by
// NCCL elsewhere. Ranks may be threads or processes: a process opens the memory
// of others through CUDA's IPC handles.
//
// Check reports a failure of another rank or of NCCL, and the timeout; Abort
// ends kernels that wait.
// Errors: NCCL's; two ranks on one GPU.
absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclWorld(
    Communicator& control, const NcclWorldOptions& options);

}  // namespace asyra
