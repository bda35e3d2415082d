// asyra-run --gate: of the program and those that do the same, the one whose
// measured steps are fastest.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/run.h"
#include "passes/search/runners_up.h"
#include "tools/run/against.h"

namespace asyra {

// Values of --gate.
inline constexpr char kGateOff[] = "off";
inline constexpr char kGateMeasured[] = "measured";
inline constexpr char kGateAgain[] = "again";  // whatever is remembered

// A program that runs, with its inputs as RunCase has them.
struct GateCandidate {
  std::string name;
  Program program;
  std::vector<Tensor> inputs;
};

// The programs to choose from: `program` as "scheduled"; `partitioned`, where
// it is known, as "unscheduled"; `runners_up` by their names; `against`, which
// may have the unscheduled one too; and where collectives of `program` ask for
// copy engines, the same carried by the library.
// Error: there is nothing to choose from.
absl::StatusOr<std::vector<GateCandidate>> GateCandidates(
    const Program& program, const Program* partitioned,
    absl::Span<const RunnerUp> runners_up,
    absl::Span<const AgainstProgram> against, absl::Span<const Tensor> inputs);

// Measures them on the platform, as one rank of `world` or, where it is null,
// on threads.
absl::StatusOr<GateResult> RunGate(const std::string& gate,
                                   absl::Span<const GateCandidate> candidates,
                                   Platform& platform, Communicator* world,
                                   const RunOptions& options);

// {kept, remembered, trials: [{name, median_us, min_us, left_out}]}; of the
// trials left out only the reason.
nlohmann::ordered_json ToJson(const GateResult& result);

}  // namespace asyra
