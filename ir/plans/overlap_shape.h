// The attributes of an `overlap` op and the chunk plan that they ask for.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/attr.h"
#include "ir/plans/plan_templates.h"

namespace asyra {

PlanShape PlanShapeOf(const AttrMap& attrs);
void SetPlanShape(const PlanShape& shape, AttrMap* attrs);
// The definitions of these attributes, defaults being PlanShape's.
std::vector<AttrDef> PlanShapeAttrs();

// The plan of an op for the group of each device: all have the same. Proven;
// or not again, where it is only counted or estimated.
// `operands` are distributed. Errors as those of GroupBodyOf, MakePlan and
// VerifyPlan; an op of form one_kernel (ir/plans/fused_reduction.h) has none.
absl::StatusOr<ChunkPlan> PlanOf(const AttrMap& attrs,
                                 absl::Span<const Type> operands,
                                 const Mesh& mesh);
absl::StatusOr<ChunkPlan> UnprovenPlanOf(const AttrMap& attrs,
                                         absl::Span<const Type> operands,
                                         const Mesh& mesh);

// Checks that the op has a plan, or a body for one kernel, without making it.
// Errors are the user's fault.
absl::Status CheckPlanOf(const AttrMap& attrs, absl::Span<const Type> operands,
                         const Mesh& mesh);

}  // namespace asyra
