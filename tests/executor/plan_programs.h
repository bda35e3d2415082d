// Programs of overlaps that have one body and many shapes of chunk plans.
#pragma once

#include <utility>
#include <vector>

#include "ir/plans/overlap_shape.h"
#include "tests/ir/plans/plan_case.h"

namespace asyra {

// Each chunk alone, and some together.
inline std::vector<PlanShape> ShapesOf(const PlanCase& c, int64_t parts) {
  std::vector<PlanShape> shapes;
  for (PlanShape shape : ShapesWithoutGroups(c, parts)) {
    int64_t chunks = ASYRA_VALUE(ChunksOfARank(c.Group(), shape));
    for (const std::vector<int64_t>& groups :
         {std::vector<int64_t>{}, std::vector<int64_t>{1, chunks - 1}}) {
      if (!groups.empty() && chunks < 2) continue;
      shape.groups = groups;
      if (CheckPlanShape(c.Group(), shape).ok()) shapes.push_back(shape);
    }
  }
  return shapes;
}

inline AttrMap OverlapAttrs(const PlanCase& c, const PlanShape& shape) {
  AttrMap attrs = {{"body", BodyRef(c.body)}};
  ASYRA_CHECK_OK(CompleteAttrs(*FindOp("overlap"), &attrs));
  SetPlanShape(shape, &attrs);
  return attrs;
}

// An overlap of each shape, one after the other, all results given.
inline Program ProgramOf(const PlanCase& c,
                         absl::Span<const PlanShape> shapes) {
  Builder builder(c.mesh, Stage::kLocal);
  std::vector<ValueId> operands;
  for (const Type& type : c.operands) {
    operands.push_back(builder.Input("x", type));
  }
  for (const PlanShape& shape : shapes) {
    for (ValueId value : ASYRA_VALUE(
             builder.Add("overlap", operands, OverlapAttrs(c, shape)))) {
      builder.Output(value);
    }
  }
  return std::move(builder).Finish();
}

}  // namespace asyra
