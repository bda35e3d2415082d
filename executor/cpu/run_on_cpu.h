// Programs on cpus (executor/run.h): ranks share the cores and the memory.
#pragma once

#include "executor/run.h"

namespace asyra {

// `memory_bytes`: limit for all ranks of this process together; 0: the
// machine's memory.
std::unique_ptr<Platform> CreateCpuPlatform(int64_t memory_bytes = 0);

// Every rank a thread of this process.
absl::StatusOr<RunResult> RunOnCpu(const Program& program,
                                   absl::Span<const Tensor> inputs,
                                   const RunOptions& options = {});

// Runs as one rank of `world`, whose other ranks call it too.
absl::StatusOr<RunResult> RunRankOnCpu(const Program& program,
                                       absl::Span<const Tensor> inputs,
                                       Communicator& world,
                                       const RunOptions& options = {});

}  // namespace asyra
