#include "passes/retune.h"

#include "ir/copy_engine.h"
#include "ir/support/status.h"
#include "passes/pass_manager.h"

namespace asyra {

absl::StatusOr<Program> Retuned(Program program, const CostModel& costs) {
  for (Op& op : program.ops) {
    if (!op.is_collective()) continue;
    // Existing settings would count as requested.
    op.attrs.Set("ctas", int64_t{0});
    AskForCopyEngine(false, &op.attrs);
  }
  // Not by RunPasses, since the pass is for scheduled programs: here it only
  // changes attributes, which do not affect memory offsets.
  PassRun run = MakePass("assign_streams", {{"second", false}});
  PassContext context;
  context.costs = &costs;
  ASYRA_RETURN_IF_ERROR(run.pass->fn(program, run.options, context).status());
  return program;
}

}  // namespace asyra
