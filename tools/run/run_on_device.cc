#include "tools/run/run_on_device.h"

#include <memory>

#include "executor/cpu/run_on_cpu.h"
#include "executor/cuda/device/cuda_platform.h"
#include "executor/trace.h"
#include "ir/interpreter.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "tools/run/run_gate.h"

namespace asyra {
namespace {

absl::StatusOr<std::unique_ptr<Platform>> PlatformOf(const RunSettings& flags) {
  if (flags.device == "cpu") {
    return WithTuning(CreateCpuPlatform(), flags.session);
  }
  if (flags.run.inject_comm_us > 0) {
    return Invalid("--inject-comm-us is for cpus, the device is {}",
                   flags.device);
  }
  ASYRA_ASSIGN_OR_RETURN(
      std::unique_ptr<Platform> platform,
      CreateCudaPlatform(
          {.graphs = flags.graphs, .timeout_s = flags.run.timeout_s}));
  return WithTuning(std::move(platform), flags.session);
}

}  // namespace

absl::Status RunOnDevice(const RunSettings& flags, const Program& program,
                         const std::vector<Tensor>& inputs,
                         absl::Span<const AgainstProgram> against,
                         Communicator* world, RunReport* report) {
  if (flags.device == "interpreter") {
    ASYRA_ASSIGN_OR_RETURN(report->outputs, Interpret(program, inputs));
    return absl::OkStatus();
  }
  RunOptions options = flags.run;
  options.executor.profile = !flags.profile.empty();
  options.progress = [&](int64_t done) {
    if (!flags.compile.progress) return;
    flags.compile.progress(
        fmt::format("step {} of {}", done + 1, options.repeat));
  };
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  std::vector<RunCase> cases = {{&program, inputs}};
  for (const AgainstProgram& other : against) {
    cases.push_back({&other.program, other.inputs});
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<RunResult> results,
                         world == nullptr
                             ? RunOnThreads(cases, *platform, options)
                             : RunAsRank(cases, *platform, *world, options));
  report->run = std::move(results[0]);
  for (size_t i = 0; i < against.size(); ++i) {
    report->against.push_back({against[i].name, std::move(results[i + 1])});
  }
  report->outputs = report->run->outputs;
  bool first = world == nullptr || world->rank() == 0;
  if (flags.profile.empty() || !first) return absl::OkStatus();
  return WriteTextFile(flags.profile, WriteProfileTrace(report->run->program, 0,
                                                        report->run->profile));
}

absl::StatusOr<std::vector<Tensor>> RunOnce(const RunSettings& flags,
                                            Communicator* world,
                                            const Program& program,
                                            absl::Span<const Tensor> inputs) {
  if (flags.device == "interpreter") return Interpret(program, inputs);
  RunOptions options{.timeout_s = flags.run.timeout_s,
                     .local_rank = flags.run.local_rank,
                     .ranks_on_host = flags.run.ranks_on_host};
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  ASYRA_ASSIGN_OR_RETURN(
      RunResult result,
      world == nullptr
          ? RunOnThreads(program, inputs, *platform, options)
          : RunAsRank(program, inputs, *platform, *world, options));
  return std::move(result.outputs);
}

absl::Status PassGate(const RunSettings& flags, const Program* partitioned,
                      absl::Span<const RunnerUp> runners_up,
                      absl::Span<const AgainstProgram> against,
                      Communicator* world, Program* program,
                      std::vector<Tensor>* inputs, RunReport* report) {
  if (flags.gate == kGateOff) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<GateCandidate> candidates,
      GateCandidates(*program, partitioned, runners_up, against, *inputs));
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  ASYRA_ASSIGN_OR_RETURN(report->gate, RunGate(flags.gate, candidates,
                                               *platform, world, flags.run));
  GateCandidate& kept = candidates[report->gate->kept];
  *program = std::move(kept.program);
  *inputs = std::move(kept.inputs);
  return absl::OkStatus();
}

absl::Status Predict(const RunSettings& flags, const Program& program,
                     absl::Span<const AgainstProgram> against,
                     RunReport* report) {
  if (against.empty() || !flags.predict) return absl::OkStatus();
  std::vector<const Program*> programs = {&program};
  for (const AgainstProgram& other : against) {
    programs.push_back(&other.program);
  }
  ASYRA_ASSIGN_OR_RETURN(report->predicted_us,
                         PredictUs(programs, flags.compile));
  return absl::OkStatus();
}

}  // namespace asyra
