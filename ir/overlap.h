// The body of an `overlap` op: ops and the collectives between them, over one
// list of mesh axes. The op means what its body means when the ops run one
// after the other; how its pieces are hidden behind each other is a chunk plan
// (ir/plans/chunk_plan.h).
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/body.h"
#include "ir/program.h"

namespace asyra {

// Returns whether some op of the body is a collective.
bool Communicates(const Body& body);
// Returns whether an op has such a body.
bool IsOverlap(const OpDef& def);

// The axes of its collectives; empty: it has none.
AxisList AxesOf(const Body& body);

// The distributed types of all values of the body.
// Errors, with the op before them: no collective or nothing beside them,
// collectives of several operands or over different axes, a value used before
// its definition, and what type inference refuses.
absl::StatusOr<std::vector<Type>> OverlapTypes(const Body& body,
                                               absl::Span<const Type> operands,
                                               const Mesh& mesh);
// The same from types without axes: shapes and element types alone.
absl::StatusOr<std::vector<Type>> OverlapShapes(
    const Body& body, absl::Span<const Type> operands);

// The body as the members of one group see it: the mesh has one axis, that of
// the group, and other axes have cut their dimensions already.
struct GroupBody {
  int ranks = 1;
  Body body;
  std::vector<Type> types;  // of all its values
};
// Errors: a value that is sharded over some of the group's axes and not all, or
// partial over others; an op that must know where in a factor its part is.
absl::StatusOr<GroupBody> GroupBodyOf(const Body& body,
                                      absl::Span<const Type> operands,
                                      const Mesh& mesh);

// The ops of each overlap's body in its place, on its stream. In a scheduled
// program its collectives are started on the stream of their axes, which others
// over the same axes have, or that is called like them, and waited for at once.
// Results keep their names, other values get those of the first result with a
// suffix. What is one kernel (ir/plans/fused_reduction.h) becomes its
// collectives and a fusion. A program of stage allocated becomes one of stage
// scheduled: new values have no memory yet. `which`: only those; null: all.
absl::StatusOr<Program> InlineOverlaps(
    const Program& program,
    const std::function<bool(const Op&)>& which = nullptr);

}  // namespace asyra
