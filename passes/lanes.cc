#include "passes/lanes.h"

#include <algorithm>
#include <optional>

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
  std::vector<std::optional<AxisRule>> rules(program.ops.size());
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
    rules[i] = *std::move(rule);
    for (size_t k = 0; k < op.operands.size(); ++k) {
      int dim = dims[op.operands[k]];
      // The outermost factor, even where a tile has only one element of it.
      if (dim < 0 || rules[i]->operands[k][dim].empty()) continue;
      FactorId factor = rules[i]->operands[k][dim][0];
      for (size_t r = 0; r < op.results.size(); ++r) {
        dims[op.results[r]] = DimLedBy(rules[i]->results[r], factor);
      }
    }
  }
  // [16] as [1, 16] is a part of [2, 16] or of [1, 32]: no rule of the tile
  // tells, but where the tiles end up does.
  for (size_t i = program.ops.size(); i-- > 0;) {
    const Op& op = program.ops[i];
    if (op.def->is_untile) {
      int dim =
          NormalizeDim(op.attrs.Int("dim"), program.type(op.results[0]).rank());
      for (ValueId tile : op.operands) dims[tile] = dim;
    }
    if (!rules[i].has_value()) continue;
    for (size_t r = 0; r < op.results.size(); ++r) {
      int dim = dims[op.results[r]];
      if (dim < 0 || rules[i]->results[r][dim].empty()) continue;
      FactorId factor = rules[i]->results[r][dim][0];
      for (size_t k = 0; k < op.operands.size(); ++k) {
        if (dims[op.operands[k]] < 0) continue;
        int led = DimLedBy(rules[i]->operands[k], factor);
        if (led >= 0) dims[op.operands[k]] = led;
      }
    }
  }
  return dims;
}

}  // namespace asyra
