// What an attention mask hides, as attributes of the op where it is provably
// nothing, a causal triangle or a sliding window.
#pragma once

#include <limits>
#include <vector>

#include "passes/rewriter.h"

namespace asyra {

struct AttentionMask {
  bool causal = false;
  int64_t window = 0;  // keys a row sees, itself included; 0: all
  // Score of the keys that causal and window hide. Finite, it matters to rows
  // that see nothing at all because of `left`.
  double hidden = -std::numeric_limits<double>::infinity();
  std::vector<ValueId> left;  // masks that stay: bool, or float to be added
  // The attributes say something the masks said.
  bool found = false;
};

// Reads masks, bool (false: not seen) or float (added), which broadcast, right
// aligned, to [.., queries, keys]; all of them together mask the scores. What
// is not provably one of the forms stays in `left`.
absl::StatusOr<AttentionMask> ReadMasks(Rewriter& in,
                                        absl::Span<const ValueId> masks,
                                        int64_t queries, int64_t keys);

// One operand of rank 4 for what is left, or kNoValue for nothing.
absl::StatusOr<ValueId> MaskOperand(Rewriter& to, const AttentionMask& mask);

// Whether adding `number` to a score of that type hides the key.
bool Hides(double number, DType dtype);

}  // namespace asyra
