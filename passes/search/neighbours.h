// Tries schedules found for one machine on another, because the result of a
// search depends on luck and a better machine should not come out slower.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "passes/compile_options.h"
#include "passes/compile_result.h"

namespace asyra {

// The rules by which programs are compared on a machine.
struct ReplayRules {
  CostOptions costs;
  bool measured_only = false;  // the cost of every op is known
  int64_t capacity_bytes = 0;  // of a device; 0: no limit
};
ReplayRules RulesOf(const CompileOptions& options, const Machine& machine);

// `program` simulated on `machine`. Errors: its mesh does not fit; with
// `measured_only`, the cost of an op was neither measured nor interpolated.
struct Replayed {
  std::unique_ptr<CostModel> costs;
  SimResult simulated;
};
absl::StatusOr<Replayed> ReplayOn(const Machine& machine,
                                  const Program& program,
                                  const ReplayRules& rules);

// Replaces `result` by the schedule found for `other`, described by `name`, if
// that is faster on the machine of `result` and fits its memory or needs no
// more than `result`. Both have the same model and options, except for the
// machine's.
void AdoptFaster(const CompileOptions& options, CompileResult other,
                 const std::string& name, CompileResult* result);

// The result of a search for a machine.
struct FoundSchedule {
  ReplayRules rules;
  Machine machine;
  Program program;
  SimResult simulated;  // on `machine`
  int tiles = 0;        // ScheduleResult
  double noise = 0;     // CompileResult
};

// The fastest of `others` on the machine of `own`, if it is faster than `own`
// by the rules of AdoptFaster. All have the same model and options, except for
// the machine's.
struct FasterSchedule {
  size_t index;  // in `others`
  SimResult simulated;
};
std::optional<FasterSchedule> FastestOf(
    absl::Span<const FoundSchedule* const> others, const FoundSchedule& own);

}  // namespace asyra
