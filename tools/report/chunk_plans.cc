#include "tools/report/chunk_plans.h"

#include "fmt/format.h"
#include "ir/body.h"
#include "ir/overlap.h"
#include "ir/plans/fused_reduction.h"
#include "ir/plans/overlap_shape.h"
#include "ir/plans/plan_text.h"
#include "ir/printer.h"
#include "ir/support/status.h"

namespace asyra {

std::string ChunkPlansText(const Program& program) {
  std::string text;
  for (const Op& op : program.ops) {
    if (!IsOverlap(*op.def)) continue;
    std::string names;
    for (ValueId value : op.results) {
      names += (names.empty() ? "%" : ", %") + program.value_name(value);
    }
    text += fmt::format("// {} = {}\n", names, BodyOutline(*BodyOf(op.attrs)));
    auto plan = PlanOf(op.attrs, program.OperandTypes(op), program.mesh);
    if (IsOneKernel(op.attrs)) {
      text += "// one kernel, which has no chunk plan\n";
    } else if (!plan.ok()) {
      text += fmt::format("// {}\n", MessageOf(plan.status()));
    } else {
      text += PrintPlan(*plan);
    }
  }
  return text.empty() ? "// no op has a chunk plan\n" : text;
}

}  // namespace asyra
