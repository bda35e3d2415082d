// A whole program on this machine's cpu: every rank of its mesh a thread of
// this process, values global. What asyra-run does, and what tests compare
// with the interpreter.
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
  int64_t memory_bytes = 0;  // of all ranks together; 0: the machine's
};

struct CpuRun {
  std::vector<Tensor> outputs;  // global, of the last step
  std::vector<double> step_us;  // each of the slowest rank
  MemoryUse memory;             // of one rank
  std::vector<std::string> fallback_ops;
  std::vector<OpTime> profile;  // of rank 0 and the last step
};

// `inputs` as Interpret takes them: global tensors, one for each input of the
// program; weights may be left out where the program's store has them.
// Errors: those of the executor, after the rank that failed first; a
// replicated output whose copies differ between ranks.
absl::StatusOr<CpuRun> RunOnCpu(const Program& program,
                                absl::Span<const Tensor> inputs,
                                const CpuRunOptions& options = {});

}  // namespace asyra
