#include "passes/train/average_loss.h"

#include "ir/builder.h"
#include "ir/support/status.h"
#include "passes/train/attach_loss.h"
#include "passes/train/attach_updates.h"

namespace asyra {

absl::StatusOr<bool> AverageLoss(Program& program, const PassOptions&,
                                 PassContext&) {
  Builder builder = Builder::Like(program);
  std::vector<ValueId> map(program.values.size(), kNoValue);
  for (const Input& input : program.inputs) {
    map[input.value] = builder.Input(program, input);
  }
  for (const Op& op : program.ops) {
    ASYRA_RETURN_IF_ERROR(builder.Copy(program, op, &map));
  }
  ValueId sum = kNoValue, count = kNoValue;
  for (const Output& output : program.outputs) {
    if (program.output_name(output) == kLossSum) sum = map[output.value];
    if (program.output_name(output) == kLossCount) count = map[output.value];
  }
  if (sum == kNoValue || count == kNoValue) {
    return Invalid("there are no outputs {} and {}, which attach_loss leaves",
                   kLossSum, kLossCount);
  }
  ASYRA_ASSIGN_OR_RETURN(ValueId loss,
                         builder.AddOne("div", {sum, count}, {}, kLoss));
  builder.Output(loss, kNoValue, kLoss);
  builder.Output(count, kNoValue, kLossCount);
  program = std::move(builder).Finish();
  return true;
}

}  // namespace asyra
