// A whole program, values global: every rank of its mesh a thread of this
// process, or this process one rank of a world of processes. What asyra-run
// does, and what tests compare with the interpreter.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/executor.h"
#include "executor/measured_gate.h"

namespace asyra {

// The devices that ranks run on and the communicators of their collectives.
// Thread-safe.
class Platform {
 public:
  virtual ~Platform() = default;
  virtual std::string_view name() const = 0;
  // Error: more ranks than it can run.
  virtual absl::Status CheckRanks(int64_t ranks_here) const = 0;
  // Makes the device of a rank of this process, the `local_rank`-th of the
  // `ranks_on_host` of its host.
  virtual absl::StatusOr<std::shared_ptr<Device>> MakeDevice(
      int64_t local_rank, int64_t ranks_on_host) = 0;
  // Makes a communicator that moves memory of `device` between the ranks that
  // `control` connects; null where `control` itself does. All ranks call it.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& control, Device& device) = 0;
};

struct RunOptions {
  ExecutorOptions executor;
  // A rank that is waited for longer is lost.
  double timeout_s = 60;
  // Every collective takes at least this long from the arrival of its last
  // member: simulates a slow link. On cpus only.
  double inject_comm_us = 0;
  // The jitter of this name in ThreadWorldOptions.
  double inject_jitter_us = 0;
  // Gives params for which neither inputs nor the program's store have data
  // their first values, for this seed (SetMadeValues of
  // executor/train/first_values.h); null: each has data.
  const Program* init = nullptr;
  int64_t seed = 0;
  // Steps, all of them from the same inputs, states and params.
  int64_t repeat = 1;
  // Called before each step with those that are done, by the rank of this
  // process that reports; null: nobody is told.
  std::function<void(int64_t done)> progress = nullptr;
  // The outputs of all steps must be equal, byte by byte.
  bool check_deterministic = false;
  // Position of this process, where it is a rank, among those of its host, and
  // how many they are; 0: all of them.
  int64_t local_rank = 0;
  int64_t ranks_on_host = 0;
};

struct RunResult {
  std::vector<Tensor> outputs;  // global, of the last step
  // Each of the slowest rank: from its inputs on the device to its outputs
  // there.
  std::vector<double> step_us;
  // Time to copy inputs to the device, before each step, and outputs to the
  // host, after the last one; of the slowest rank.
  std::vector<double> inputs_us;
  double outputs_us = 0;
  // Time from when the reporting rank made its device to the end of its first
  // step, with the preparation of all programs.
  double first_step_us = 0;
  MemoryUse memory;  // of one rank, as planned
  MemoryUse used;    // of it, as measured
  // Results of the Executor functions of these names.
  std::vector<CollectiveRun> collectives;
  std::vector<std::string> fallback_ops, fallback_collectives, split_fusions;
  // The program that ran: where no chunk plans are carried out, overlaps are
  // their ops.
  Program program;
  std::vector<OpTime> profile;  // of one rank and the last step
};

// A program and its inputs as Interpret takes them: global tensors, one for
// each input of the program; weights may be left out where the program's store
// or RunOptions::init has them. A rank reads its shard of tensors without
// memory (ir/weights/random_tensors.h) and no more. Both outlive the run.
struct RunCase {
  const Program* program = nullptr;
  absl::Span<const Tensor> inputs;
  std::string name = "";  // as GateProgram has it
};

// Programs for equally many devices, a step of each in turn, so that other load
// and changes of the GPU's clock affect all of them equally. Gives a result for
// each. Errors: those of the executor, after the rank that failed first; a
// replicated output whose copies differ between ranks.
absl::StatusOr<std::vector<RunResult>> RunOnThreads(
    absl::Span<const RunCase> cases, Platform& platform,
    const RunOptions& options = {});

// The same as one rank of `world`, whose other ranks call it too; all get the
// whole outputs. The times of the world count, not those of the options.
absl::StatusOr<std::vector<RunResult>> RunAsRank(
    absl::Span<const RunCase> cases, Platform& platform, Communicator& world,
    const RunOptions& options = {});

// Chooses, of programs that compute the same, the one that is kept for its
// measured steps (measured_gate.h). The options `sharing` and `set_states` of
// the gate are set here.
absl::StatusOr<GateResult> ChooseOnThreads(absl::Span<const RunCase> cases,
                                           Platform& platform,
                                           const GateOptions& gate,
                                           const RunOptions& options = {});
absl::StatusOr<GateResult> ChooseAsRank(absl::Span<const RunCase> cases,
                                        Platform& platform, Communicator& world,
                                        const GateOptions& gate,
                                        const RunOptions& options = {});

// Runs a single program.
absl::StatusOr<RunResult> RunOnThreads(const Program& program,
                                       absl::Span<const Tensor> inputs,
                                       Platform& platform,
                                       const RunOptions& options = {});
absl::StatusOr<RunResult> RunAsRank(const Program& program,
                                    absl::Span<const Tensor> inputs,
                                    Platform& platform, Communicator& world,
                                    const RunOptions& options = {});

}  // namespace asyra
