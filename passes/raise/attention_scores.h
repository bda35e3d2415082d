// The scores of decomposed attention, recognised from the ops before its
// softmax.
#pragma once

#include <vector>

#include "passes/raise/attention_mask.h"

namespace asyra {

// softcap * tanh(q k^T * scale / softcap), or q k^T * scale where softcap is 0,
// with all masks applied.
struct AttentionScores {
  ValueId q = kNoValue, k = kNoValue;  // [.., S, D] and [.., T, D]
  bool k_transposed = false;           // k is [.., D, T]
  double scale = 1, softcap = 0;
  bool clamped = false;         // max(masked scores, the lowest number)
  bool guarded = false;         // weights that are NaN are 0
  ValueId sinks = kNoValue;     // [1, H, 1, 1]: scores beside those of the keys
  std::vector<MaskStep> masks;  // from the matmul outwards
};

// Recognises `value` as softmax(scores), through a guard against rows of NaN,
// casts between float types, sinks and a clamp that changes nothing. If it
// returns false, `scores` is unspecified.
bool ReadAttentionWeights(Rewriter& in, ValueId value, AttentionScores* scores);

// Peels x * c and x / c, and casts between float types; `scale` is multiplied
// by what was peeled.
ValueId WithoutScale(Rewriter& in, ValueId value, double* scale);

}  // namespace asyra
