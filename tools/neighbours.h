// Schedules that were found for one machine, tried on another: what a search
// finds depends on luck, and a machine that is better in a number should not
// come out slower for it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/compile.h"

namespace asyra {

// `program` on `machine`; none where its mesh has no place there or the cost
// of an op is a guess and `options` take none.
struct Replayed {
  std::unique_ptr<CostModel> costs;
  SimResult simulated;
};
absl::StatusOr<Replayed> ReplayOn(const Machine& machine,
                                  const Program& program,
                                  const CompileFlags& options);

// Takes over what was found for `other`, which `name` tells of, where it is
// faster on the machine of `result` and takes no more memory than there is, or
// than `result` does. Both come of one model and the same options but for the
// machine's.
void AdoptFaster(const CompileFlags& options, CompiledModel other,
                 const std::string& name, CompiledModel* result);

// What a search found for a machine.
struct FoundSchedule {
  CompileFlags options;
  Machine machine;
  Program program;
  SimResult simulated;  // on `machine`
  int tiles = 0;        // ScheduleResult
  double noise = 0;     // CompiledModel
};

// Which of `others` is fastest on the machine of `own`, and faster than it, by
// the rules of AdoptFaster. All come of one model
// and the same options but for the machine's.
struct FasterSchedule {
  size_t index;  // in `others`
  SimResult simulated;
};
std::optional<FasterSchedule> FastestOf(
    absl::Span<const FoundSchedule* const> others, const FoundSchedule& own);

}  // namespace asyra
