// Operands of pieces of a chunk plan whose text does not say which part they
// read: the part that has the chunk of the result (ir/plans/plan_walk.h).
#pragma once

#include "absl/status/statusor.h"
#include "ir/overlap.h"
#include "ir/plans/chunk_plan.h"
#include "ir/plans/plan_walk.h"

namespace asyra {

class PieceReads {
 public:
  // `group` outlives it.
  explicit PieceReads(const GroupBody& group);

  // Returns the box of operand `k` of an op that a piece with this result reads
  // on a rank. Errors: no walk goes through the body; the box begins or ends
  // between elements of the operand, or this rank has nothing of it.
  absl::StatusOr<Box> Of(int op, int k, int rank, const Box& result) const;

 private:
  const GroupBody& group_;
  absl::StatusOr<PlanWalk> walk_;
};

}  // namespace asyra
