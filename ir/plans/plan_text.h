// The text form of chunk plans (ir/plans/chunk_plan.h), as `plan { ... }` of an
// overlap has it; "Chunk plans" in ir/README.md is its reference.
//
// Sizes are parts of shards, so that a text fits other sizes too, and ranks
// that do the same up to their number are written once, as `rank r`. In which
// order a rank issues the steps of its queues is not written: it follows
// (ir/plans/plan_issue.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/attr.h"
#include "ir/lexer.h"
#include "ir/overlap.h"
#include "ir/plans/chunk_plan.h"

namespace asyra {

// "plan {\n  queues compute, copy 0\n  rank r:\n ...}\n". Reads back to an
// equal plan but for the numbers of signals and the order of issue, and prints
// the same again. `plan` is proven; each rank's buffers begin with those of
// BufferOfValue (ir/plans/plan_builder.h), and its queues compute if they are
// called so.
std::string PrintPlan(const ChunkPlan& plan);
// The lines between the braces, the first ones of a block without indentation.
std::vector<std::string> PlanLines(const ChunkPlan& plan);

// Parses the text of a plan, from "plan {" to its end, for the body of an
// overlap, and proves it. Errors name line and column; of a plan that is not
// proven, those of each step that is named.
absl::StatusOr<PlanRef> ParsePlan(std::string_view text,
                                  const GroupBody& group);
// The same of what comes next, from "{" to "}".
absl::StatusOr<PlanRef> ParsePlan(const GroupBody& group, Lexer* lexer);

}  // namespace asyra
