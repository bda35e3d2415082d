#include "tools/report/compare_single.h"

#include <algorithm>

#include "ir/interpreter.h"
#include "ir/support/status.h"
#include "tools/report/compare.h"

namespace asyra {

double ShardedToleranceOf(const Program& program, size_t index) {
  std::vector<bool> needed(program.values.size(), false);
  ValueId output = program.outputs[index].value;
  needed[output] = true;
  double tolerance = ShardedToleranceFor(program.type(output).dtype);
  for (auto op = program.ops.rbegin(); op != program.ops.rend(); ++op) {
    for (ValueId result : op->results) {
      if (!needed[result]) continue;
      if (!op->def->is_view && op->def->name != "constant") {
        tolerance = std::max(tolerance,
                             ShardedToleranceFor(program.type(result).dtype));
      }
      for (ValueId operand : op->operands) needed[operand] = true;
    }
  }
  return tolerance;
}

absl::StatusOr<std::vector<OffSingle>> CompareSingle(
    Program single, absl::Span<const Tensor> inputs,
    absl::Span<const Tensor> outputs) {
  if (single.stage != Stage::kGlobal) {
    return Invalid(
        "--compare-single: the program came in partitioned, what it was on one "
        "device is not known");
  }
  single.mesh = Mesh();
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> expected,
                         Interpret(single, inputs));
  std::vector<OffSingle> off;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(
        Comparison comparison,
        Compare(outputs[i], expected[i], ToleranceFor(outputs[i].dtype())));
    const std::string& name = single.output_name(single.outputs[i]);
    double error = ErrorOfLargest(comparison);
    double tolerance = ShardedToleranceOf(single, i);
    off.push_back({name, error, comparison.largest});
    if (error <= tolerance) continue;
    return Invalid(
        "output %{} is off the result of one device by {:.3g} of its largest "
        "magnitude, the tolerance is {:g}",
        name, error, tolerance);
  }
  return off;
}

}  // namespace asyra
