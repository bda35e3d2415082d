#include "passes/shard/live_ops.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "ir/builder.h"
#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<Program> WithoutDeadOps(const Program& program) {
  std::vector<bool> read(program.values.size()), live(program.ops.size());
  for (const Output& output : program.outputs) read[output.value] = true;
  for (size_t i = program.ops.size(); i-- > 0;) {
    const Op& op = program.ops[i];
    live[i] = op.def->is_barrier ||
              absl::c_any_of(op.results, [&](ValueId v) { return read[v]; });
    if (!live[i]) continue;
    for (ValueId operand : op.operands) read[operand] = true;
  }
  Builder builder = Builder::Like(program);
  std::vector<ValueId> map(program.values.size(), kNoValue);
  builder.CopyInputs(program, &map);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!live[i]) continue;
    ASYRA_RETURN_IF_ERROR(builder.Copy(program, program.ops[i], &map));
  }
  builder.CopyOutputs(program, map);
  return std::move(builder).Finish();
}

}  // namespace asyra
