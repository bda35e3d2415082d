// The factors along which the body of an overlap is walked, and what a chunk of
// them is in each value. If no factor is one of all ops, each part of the body,
// ops that read each other's results, has a factor of its own.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ir/overlap.h"
#include "ir/plans/chunk_plan.h"

namespace asyra {

struct PlanWalk {
  int ranks = 1;
  int64_t parts = 1;
  std::vector<int> dim;    // by value: the dimension that is walked, or -1
  std::vector<int> level;  // by value: how many collectives come before it

  int64_t chunks() const { return ranks * parts; }
};

// Errors as those of MakePlan; two parts that read an operand along different
// dimensions.
absl::StatusOr<PlanWalk> FindWalk(const GroupBody& body, int64_t parts);

// The box of chunks [first, first + count) in what a rank holds of a value:
// empty where it holds none of them, the whole where the value is not walked.
Box ChunkBox(const GroupBody& body, const PlanWalk& walk, int value, int rank,
             int64_t first, int64_t count);
// The same of the whole value.
Box ChunkOfAll(const GroupBody& body, const PlanWalk& walk, int value,
               int64_t first, int64_t count);

}  // namespace asyra
