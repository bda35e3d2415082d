// What an attention mask hides, as attributes of the op where it is provably
// nothing, a causal triangle or a sliding window.
#pragma once

#include <vector>

#include "passes/rewriter.h"

namespace asyra {

struct AttentionMask {
  bool causal = false;
  int64_t window = 0;         // keys a row sees, itself included; 0: all
  std::vector<ValueId> left;  // masks that stay: bool, or float to be added
  // The attributes say something the masks said.
  bool found = false;
};

// Reads `mask`, bool (false: not seen) or float (added), which broadcasts,
// right aligned, to [.., queries, keys]. What is not provably one of the forms
// stays in `left`.
void ReadMask(Rewriter& in, ValueId mask, int64_t queries, int64_t keys,
              AttentionMask* result);

// One operand of rank 4 for what is left, or kNoValue for nothing.
absl::StatusOr<ValueId> MaskOperand(Rewriter& to, const AttentionMask& mask);

// Whether adding `number` to a score of that type hides the key.
bool Hides(double number, DType dtype);

}  // namespace asyra
