// Checks whether the steps of a chunk plan compute what the body means: part of
// ir/plans/verify_plan.h.
#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/axis_rule.h"
#include "ir/plans/chunk_plan.h"

namespace asyra {

class PlanMeaning {
 public:
  explicit PlanMeaning(const ChunkPlan& plan)
      : plan_(plan), same_(SameValues(plan.body)) {}

  // Checks a step that names what exists: a piece computes the part of its op's
  // result that its operands' boxes make, a copy or message keeps value and
  // summands, a sum, also one in a piece, adds each summand once.
  absl::Status Check(const PlanStep& step) const;

 private:
  using Part = std::pair<int64_t, int64_t>;  // of a factor: first and size

  absl::Status CheckSame(const PlanRegion& read, const PlanRegion& write) const;
  absl::Status CheckCopy(const PlanRegion& read, const PlanRegion& write) const;
  absl::Status CheckExchange(const PlanStep& step) const;
  absl::Status CheckSum(const PlanStep& step) const;
  absl::Status CheckPiece(const PlanStep& step) const;
  // Checks what a piece adds to `result` of its op, and where it writes the
  // sum.
  absl::Status CheckAdded(const PlanStep& step, int result) const;
  // `parts` have each summand of what the step writes once, and no others.
  absl::Status CheckAddedSummands(absl::Span<const RankSet> parts,
                                  const PlanStep& step) const;
  absl::Status CheckSummands(const PlanRegion& region, int value,
                             std::string_view what) const;
  // The region's dimensions, bound to `dims`, against the parts of factors that
  // are known, to which it adds others. `result` is what the result binds.
  absl::Status CheckPart(const AxisRule& rule, const OperandFactors& dims,
                         const PlanRegion& region, int value,
                         const OperandFactors& result,
                         std::map<FactorId, Part>* part) const;

  const ChunkPlan& plan_;
  std::vector<int> same_;  // SameValues
};

}  // namespace asyra
