#include "passes/raise/raise_moe.h"

#include "passes/raise/expert_lifter.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {

absl::StatusOr<bool> RaiseMoe(Program& program, const PassOptions& options,
                              PassContext& context) {
  int64_t percent = options.Int("capacity_percent");
  if (percent < 0) return Invalid("capacity_percent is {}", percent);
  DefUse def_use(program);
  Rewriter to(program, {});
  ExpertLifter lifter(program, def_use, percent, to);
  int64_t raised = 0;
  for (const Op& op : program.ops) {
    ValueId value = kNoValue;
    if (op.results.size() == 1) {
      to.SetHint(program.value_name(op.results[0]));
      ASYRA_ASSIGN_OR_RETURN(value, lifter.Lift(op));
    }
    if (value == kNoValue) {
      ASYRA_RETURN_IF_ERROR(to.Copy(op));
    } else {
      to.Map(op.results[0], value);
      ++raised;
    }
  }
  if (raised == 0) {
    context.Remark("raise_moe: no sum over gathered experts");
    return false;
  }
  return to.Finish(program);
}

}  // namespace asyra
