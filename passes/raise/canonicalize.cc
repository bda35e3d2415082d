#include "passes/raise/canonicalize.h"

#include "passes/raise/canonicalize_rules.h"

namespace asyra {
namespace {

// Each round undoes at least one layer of nesting; programs need two or three.
constexpr int kMaxRounds = 16;

}  // namespace

absl::StatusOr<bool> Canonicalize(Program& program, const PassOptions&,
                                  PassContext& context) {
  bool changed = false;
  for (int round = 0; round < kMaxRounds; ++round) {
    ASYRA_ASSIGN_OR_RETURN(bool rewritten, Rewrite(program, kCanonicalRules));
    if (!rewritten) break;
    changed = true;
  }
  if (!changed) context.Remark("canonicalize: the program is canonical");
  return changed;
}

}  // namespace asyra
