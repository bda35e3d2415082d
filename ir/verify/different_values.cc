#include "ir/verify/different_values.h"

#include <algorithm>

namespace asyra {
namespace {

// Pairs of values that are compared, and ops between them and what differs.
constexpr int kPairs = 256, kDepth = 16;

bool HaveSameOperands(const Op& a, const Op& b) {
  return a.operands.size() == b.operands.size() &&
         std::is_permutation(a.operands.begin(), a.operands.end(),
                             b.operands.begin());
}

bool IsCut(const Op& op) { return op.def->is_tile || op.def->name == "slice"; }

// Returns whether both cut out the same part, whatever runs them.
bool CutSame(const Op& a, const Op& b) {
  return std::all_of(
      a.def->attrs.begin(), a.def->attrs.end(), [&](const AttrDef& attr) {
        return *a.attrs.Find(attr.name) == *b.attrs.Find(attr.name);
      });
}

bool Differ(const Program& program, const DefUse& def_use, ValueId a, ValueId b,
            int depth, int* pairs) {
  if (a == b || depth == 0 || --*pairs < 0) return false;
  int from_a = def_use.def[a], from_b = def_use.def[b];
  if (from_a < 0 && from_b < 0) return true;
  if (from_a < 0 || from_b < 0) return false;
  if (from_a == from_b) return true;
  const Op &x = program.ops[from_a], &y = program.ops[from_b];
  if (x.def != y.def) return false;
  if (IsCut(x) && x.operands == y.operands) return !CutSame(x, y);
  if ((!IsCut(x) && !(x.attrs == y.attrs)) ||
      x.operands.size() != y.operands.size() || HaveSameOperands(x, y)) {
    return false;
  }
  for (size_t k = 0; k < x.operands.size(); ++k) {
    if (Differ(program, def_use, x.operands[k], y.operands[k], depth - 1,
               pairs)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool SurelyDiffer(const Program& program, const DefUse& def_use, ValueId a,
                  ValueId b) {
  int pairs = kPairs;
  return Differ(program, def_use, a, b, kDepth, &pairs);
}

}  // namespace asyra
