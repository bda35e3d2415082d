// Attention's mask as a function of one input of zeros and ones.
#pragma once

#include <string>

#include "passes/rewrite/rewriter.h"

namespace asyra {

// A mask [B, H, S, T] whose element (b, h, s, t) depends on one element of the
// input alone, (b, t), and on positions: exporters compute it by casts,
// comparisons, arithmetic and views from what is 1 for a token and 0 for
// padding.
struct MaskFlow {
  ValueId input = kNoValue;
  int64_t rows = 1, keys = 1;  // of the input: B or 1, and T
  Fact ones, zeros;  // the mask where the input is 1 and where it is 0
};

// Follows `mask` back to its input. False where it is no such function, or its
// values for 0 and 1 are not known; then `why` has the reason, in words that
// continue "the mask".
bool FollowMask(Rewriter& in, ValueId mask, MaskFlow* flow, std::string* why);

}  // namespace asyra
