// The GPUs of this host as a platform (executor/run.h): a rank has one of its
// own, and NCCL carries its collectives. Every rank is a thread of one process,
// or a process of its own.
#pragma once

#include "executor/run.h"

namespace asyra {

struct CudaPlatformOptions {
  // A step is captured as one CUDA graph; else its ops are launched one by one.
  bool graphs = true;
  // Steps that take longer have lost a rank.
  double timeout_s = 60;
  bool chunk_plans = true;  // as NcclWorldOptions has it
};

// Errors: Unimplemented in a build without CUDA; FailedPrecondition where there
// is no GPU, or its driver is too old for this build.
absl::StatusOr<std::unique_ptr<Platform>> CreateCudaPlatform(
    const CudaPlatformOptions& options = {});

}  // namespace asyra
