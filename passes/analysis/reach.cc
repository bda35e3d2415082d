#include "passes/analysis/reach.h"

namespace asyra {
namespace {

// Returns whether result k is of operand k alone: of collectives that were
// joined.
bool IsJoined(const Op& op) {
  return (op.is_collective() || op.def->name == "wait") &&
         op.operands.size() == op.results.size();
}

}  // namespace

std::vector<bool> Ancestors(const Program& program, std::vector<bool> needed) {
  std::vector<bool> found(program.ops.size(), false);
  for (size_t i = program.ops.size(); i-- > 0;) {
    const Op& op = program.ops[i];
    for (ValueId result : op.results) found[i] = found[i] || needed[result];
    if (!found[i]) continue;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (IsJoined(op) && !needed[op.results[k]]) continue;
      needed[op.operands[k]] = true;
    }
  }
  return found;
}

std::vector<bool> Descendants(const Program& program,
                              std::vector<bool> reached) {
  std::vector<bool> found(program.ops.size(), false);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    for (ValueId operand : op.operands) found[i] = found[i] || reached[operand];
    if (!found[i]) continue;
    for (size_t k = 0; k < op.results.size(); ++k) {
      if (IsJoined(op) && !reached[op.operands[k]]) continue;
      reached[op.results[k]] = true;
    }
  }
  return found;
}

}  // namespace asyra
