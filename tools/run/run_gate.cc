#include "tools/run/run_gate.h"

#include "absl/algorithm/container.h"
#include "ir/copy_engine.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr char kUnscheduled[] = "unscheduled";

// `program` with all collectives carried by the library; none if they are.
std::optional<Program> ByLibrary(Program program) {
  bool asks = false;
  for (Op& op : program.ops) {
    if (!op.is_collective() || !AsksForCopyEngine(op.attrs)) continue;
    AskForCopyEngine(false, &op.attrs);
    asks = true;
  }
  if (!asks) return std::nullopt;
  return program;
}

}  // namespace

absl::StatusOr<std::vector<GateCandidate>> GateCandidates(
    const Program& program, const Program* partitioned,
    absl::Span<const RunnerUp> runners_up,
    absl::Span<const AgainstProgram> against, absl::Span<const Tensor> inputs) {
  std::vector<Tensor> given(inputs.begin(), inputs.end());
  std::vector<GateCandidate> candidates = {{"scheduled", program, given}};
  if (std::optional<Program> other = ByLibrary(program)) {
    candidates.push_back({"scheduled, by the library", *other, given});
  }
  for (const RunnerUp& one : runners_up) {
    candidates.push_back({one.name, one.program, given});
  }
  for (const AgainstProgram& one : against) {
    candidates.push_back({one.name, one.program, one.inputs});
  }
  bool has = absl::c_any_of(
      against, [](const auto& one) { return one.name == kUnscheduled; });
  if (partitioned != nullptr && !has) {
    const std::string names[] = {kUnscheduled};
    ASYRA_ASSIGN_OR_RETURN(std::vector<AgainstProgram> plain,
                           LoadAgainst(names, program, partitioned, inputs));
    candidates.push_back({plain[0].name, std::move(plain[0].program),
                          std::move(plain[0].inputs)});
  }
  if (candidates.size() > 1) return candidates;
  return Invalid(
      "--gate has one program to choose from: a program file runs unchanged; "
      "give others with --against");
}

absl::StatusOr<GateResult> RunGate(const std::string& gate,
                                   absl::Span<const GateCandidate> candidates,
                                   Platform& platform, Communicator* world,
                                   const RunOptions& options) {
  std::vector<RunCase> cases;
  for (const GateCandidate& one : candidates) {
    cases.push_back({&one.program, one.inputs, one.name});
  }
  GateOptions measured{.cache = &DiskCache::OfProcess(),
                       .again = gate == kGateAgain};
  absl::StatusOr<GateResult> result =
      world == nullptr
          ? ChooseOnThreads(cases, platform, measured, options)
          : ChooseAsRank(cases, platform, *world, measured, options);
  if (!result.ok()) return Annotate(result.status(), "--gate");
  return result;
}

nlohmann::ordered_json ToJson(const GateResult& result) {
  nlohmann::ordered_json trials = nlohmann::ordered_json::array();
  for (const GateTrial& trial : result.trials) {
    nlohmann::ordered_json json = {{"name", trial.name}};
    if (trial.left_out.empty()) {
      json["median_us"] = trial.median_us;
      json["min_us"] = trial.min_us;
    } else {
      json["left_out"] = trial.left_out;
    }
    trials.push_back(std::move(json));
  }
  return {{"kept", result.trials[result.kept].name},
          {"remembered", result.remembered},
          {"trials", std::move(trials)}};
}

}  // namespace asyra
