// A whole program on cpus, values global: every rank of its mesh a thread of
// this process, or this process one rank of a world of processes. What
// asyra-run does, and what tests compare with the interpreter.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "executor/cpu/local_world.h"
#include "executor/executor.h"

namespace asyra {

struct CpuRunOptions {
  ExecutorOptions executor;
  LocalWorldOptions world;
  // Steps, all of them from the same inputs and state.
  int64_t repeat = 1;
  // The outputs of all steps must be equal, byte by byte.
  bool check_deterministic = false;
  // Of all ranks of this process together; 0: the machine's.
  int64_t memory_bytes = 0;
  // Ranks that share the cores with this one where it is a process; 0: all
  // of them.
  int64_t ranks_on_host = 0;
};

struct CpuRun {
  std::vector<Tensor> outputs;  // global, of the last step
  std::vector<double> step_us;  // each of the slowest rank
  MemoryUse memory;             // of one rank, as planned
  MemoryUse used;               // of it, as measured
  std::vector<std::string> fallback_ops;
  std::vector<OpTime> profile;  // of one rank and the last step
};

// `inputs` as Interpret takes them: global tensors, one for each input of the
// program; weights may be left out where the program's store has them.
// Errors: those of the executor, after the rank that failed first; a
// replicated output whose copies differ between ranks.
absl::StatusOr<CpuRun> RunOnCpu(const Program& program,
                                absl::Span<const Tensor> inputs,
                                const CpuRunOptions& options = {});

// The same as one rank of `world`, whose other ranks call it too; all get the
// whole outputs. options.world is not looked at.
absl::StatusOr<CpuRun> RunRankOnCpu(const Program& program,
                                    absl::Span<const Tensor> inputs,
                                    Communicator& world,
                                    const CpuRunOptions& options = {});

}  // namespace asyra
