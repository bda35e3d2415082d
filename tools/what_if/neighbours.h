// Tries schedules found for one machine on another, because the result of a
// search depends on luck and a better machine should not come out slower.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/compile.h"

namespace asyra {

// `program` simulated on `machine`; none if its mesh does not fit or, with
// strict `options`, if the cost of an op was neither measured nor interpolated.
struct Replayed {
  std::unique_ptr<CostModel> costs;
  SimResult simulated;
};
absl::StatusOr<Replayed> ReplayOn(const Machine& machine,
                                  const Program& program,
                                  const CompileFlags& options);

// Replaces `result` by the schedule found for `other`, described by `name`, if
// that is faster on the machine of `result` and fits its memory or needs no
// more than `result`. Both have the same model and options, except for the
// machine's.
void AdoptFaster(const CompileFlags& options, CompiledModel other,
                 const std::string& name, CompiledModel* result);

// The result of a search for a machine.
struct FoundSchedule {
  CompileFlags options;
  Machine machine;
  Program program;
  SimResult simulated;  // on `machine`
  int tiles = 0;        // ScheduleResult
  double noise = 0;     // CompiledModel
};

// Which of `others` is fastest on the machine of `own`, and faster than it, by
// the rules of AdoptFaster. All have the same model and options, except for the
// machine's.
struct FasterSchedule {
  size_t index;  // in `others`
  SimResult simulated;
};
std::optional<FasterSchedule> FastestOf(
    absl::Span<const FoundSchedule* const> others, const FoundSchedule& own);

}  // namespace asyra
