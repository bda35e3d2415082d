#include "passes/analysis/dim_uses.h"

#include <algorithm>

namespace asyra {
namespace {

bool InDims(FactorId factor, const OperandFactors& dims) {
  return std::any_of(dims.begin(), dims.end(), [&](const DimFactors& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

// Returns whether the factor is a whole dimension, not a part of one.
bool IsDim(FactorId factor, const OperandFactors& dims) {
  return std::any_of(dims.begin(), dims.end(), [&](const DimFactors& dim) {
    return dim.size() == 1 && dim[0] == factor;
  });
}

bool IsMatrixOfWeights(const Program& program, ValueId value,
                       const std::vector<bool>& of_weights) {
  return of_weights[value] && program.type(value).rank() >= 2;
}

uint8_t UseWithWeights(const Program& program, const Op& op,
                       const AxisRule& rule, FactorId factor,
                       const std::vector<bool>& of_weights) {
  bool in_weights = false, in_data = false;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    if (!InDims(factor, rule.operands[k])) continue;
    bool weights = IsMatrixOfWeights(program, op.operands[k], of_weights);
    (weights ? in_weights : in_data) = true;
  }
  if (!in_data) return 0;
  switch (rule.factors[factor].kind) {
    case FactorKind::kSum:
      return in_weights ? kContracted : 0;
    case FactorKind::kParallel:
      return in_weights ? 0 : kRow;
    case FactorKind::kWhole:
    case FactorKind::kAccumulated:
      return 0;
  }
  return 0;
}

// Rows are weighed against keys: a whole dimension that the second and third
// operand have, and neither the first nor the result.
bool HasKeys(const AxisRule& rule) {
  if (rule.operands.size() < 3) return false;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    auto factor = static_cast<FactorId>(f);
    if (rule.factors[f].kind == FactorKind::kWhole &&
        !InDims(factor, rule.operands[0]) && InDims(factor, rule.operands[1]) &&
        InDims(factor, rule.operands[2]) && !InDims(factor, rule.results[0])) {
      return true;
    }
  }
  return false;
}

uint8_t UseInMatmulOfData(const AxisRule& rule, FactorId factor) {
  if (rule.operands.size() < 2 ||
      rule.factors[factor].kind != FactorKind::kParallel ||
      !InDims(factor, rule.operands[0])) {
    return 0;
  }
  if (InDims(factor, rule.operands[1])) return kShared;
  bool row = IsDim(factor, rule.operands[0]) && IsDim(factor, rule.results[0]);
  return row && HasKeys(rule) ? kQuery : 0;
}

}  // namespace

std::vector<bool> ValuesOfWeights(const Program& program) {
  std::vector<bool> of_weights(program.values.size(), false);
  for (const Input& input : program.inputs) {
    of_weights[input.value] = IsWeight(input);
  }
  for (const Op& op : program.ops) {
    bool all = !op.operands.empty();
    for (ValueId value : op.operands) all &= of_weights[value];
    for (ValueId value : op.results) of_weights[value] = all;
  }
  return of_weights;
}

bool ContractsWeights(const Program& program, const Op& op,
                      const AxisRule& rule,
                      const std::vector<bool>& of_weights) {
  bool sums = false, matrix = false;
  for (const Factor& factor : rule.factors) {
    sums |= factor.kind == FactorKind::kSum;
  }
  for (ValueId value : op.operands) {
    matrix |= IsMatrixOfWeights(program, value, of_weights);
  }
  return sums && matrix && !of_weights[op.results[0]];
}

bool IsMatmulOfData(const Program& program, const Op& op,
                    const std::vector<bool>& of_weights) {
  for (ValueId value : op.operands) {
    if (IsMatrixOfWeights(program, value, of_weights)) return false;
  }
  return !op.operands.empty() &&
         WorkOf(OpUse(program, op), program.mesh).matrix;
}

std::vector<std::vector<uint8_t>> DimUses(const Program& program,
                                          const std::vector<AxisRule>& rules,
                                          const std::vector<bool>& of_weights) {
  std::vector<std::vector<uint8_t>> uses;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const AxisRule& rule = rules[i];
    bool weights = ContractsWeights(program, op, rule, of_weights);
    bool data = !weights && IsMatmulOfData(program, op, of_weights);
    uses.emplace_back(rule.factors.size(), 0);
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      auto factor = static_cast<FactorId>(f);
      if (weights) {
        uses[i][f] = UseWithWeights(program, op, rule, factor, of_weights);
      } else if (data) {
        uses[i][f] = UseInMatmulOfData(rule, factor);
      }
    }
  }
  return uses;
}

}  // namespace asyra
