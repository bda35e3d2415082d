// The attributes of an `overlap` op and the chunk plan that they ask for: one
// that is written out (`plan`), or what a template makes of a few choices.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/attr.h"
#include "ir/plans/plan_templates.h"

namespace asyra {

PlanShape PlanShapeOf(const AttrMap& attrs);
// Sets these choices, in the place of a plan that is written out.
void SetPlanShape(const PlanShape& shape, AttrMap* attrs);
// Sets a plan, in the place of all choices.
void SetPlan(PlanRef plan, AttrMap* attrs);
// Returns whether an op is an overlap whose chunks a library carries, in
// exchanges (ir/plans/plan_exchanges.h).
bool ExchangesMessages(const OpDef& def, const AttrMap& attrs);
// Returns whether the plan is written out.
bool HasOwnPlan(const AttrMap& attrs);
// The definitions of these attributes, defaults being PlanShape's and no plan.
std::vector<AttrDef> PlanShapeAttrs();

// The plan of an op for the group of each device: all have the same. Proven;
// or not again, where it is only counted or estimated.
// A plan that is written out has been proven when it was read.
// `operands` are distributed. Errors as those of GroupBodyOf, MakePlan and
// VerifyPlan; a written plan that is one of another body; an op of form
// one_kernel (ir/plans/fused_reduction.h) has none.
absl::StatusOr<ChunkPlan> PlanOf(const AttrMap& attrs,
                                 absl::Span<const Type> operands,
                                 const Mesh& mesh);
absl::StatusOr<ChunkPlan> UnprovenPlanOf(const AttrMap& attrs,
                                         absl::Span<const Type> operands,
                                         const Mesh& mesh);

// Checks that the op has a plan, or a body for one kernel, without making it. A
// plan that is written out is of this body, and alone.
// Errors are the user's fault.
absl::Status CheckPlanOf(const AttrMap& attrs, absl::Span<const Type> operands,
                         const Mesh& mesh);

}  // namespace asyra
