#include "passes/lanes.h"

#include <algorithm>

namespace asyra {

Lanes::Lanes(const Program& program) {
  constexpr int kSeveral = -2;
  std::vector<int> of_value(program.values.size(), kNoLane);
  for (const Op& op : program.ops) {
    int lane = kNoLane;
    for (ValueId value : op.operands) {
      int other = of_value[value];
      if (other == kNoLane || other == lane) continue;
      lane = lane == kNoLane ? other : kSeveral;
    }
    if (op.def->is_tile && lane == kNoLane) {
      lane = static_cast<int>(op.attrs.Int("part"));
    }
    if (lane == kSeveral) lane = kNoLane;
    of_op.push_back(lane);
    for (ValueId value : op.results) of_value[value] = lane;
    count = std::max(count, lane + 1);
  }
}

namespace {

// The dimension of a result that factor leads, or -1.
int DimLedBy(const OperandFactors& dims, FactorId factor) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d].empty() && dims[d][0] == factor) return static_cast<int>(d);
  }
  return -1;
}

}  // namespace

std::vector<int> TileDims(const Program& program, const Lanes& lanes) {
  std::vector<int> dims(program.values.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (lanes.of_op[i] == kNoLane) continue;
    if (op.def->is_tile) {
      dims[op.results[0]] =
          NormalizeDim(op.attrs.Int("dim"), program.type(op.results[0]).rank());
      continue;
    }
    absl::StatusOr<AxisRule> rule = AxisRuleOf(OpUse(program, op));
    if (!rule.ok()) continue;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      int dim = dims[op.operands[k]];
      // The outermost factor, even where a tile has only one element of it.
      if (dim < 0 || rule->operands[k][dim].empty()) continue;
      FactorId factor = rule->operands[k][dim][0];
      for (size_t r = 0; r < op.results.size(); ++r) {
        dims[op.results[r]] = DimLedBy(rule->results[r], factor);
      }
    }
  }
  return dims;
}

}  // namespace asyra
