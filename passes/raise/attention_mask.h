// Converts the masks of decomposed attention to attributes and one mask operand
// of the op, if every row gets the same result.
//
// A mask means different things for rows that see a key and for rows that see
// none. In a row that sees a key, a hidden key has weight 0, whether its score
// is -inf, the lowest number or -1e9, added or selected. In a row without a
// visible key the masks decide the result:
//   -inf, added or selected: NaN; guarded by select(is_nan(p), 0, p): 0
//   a number f, selected: the row is shared evenly over all keys
//   f, added: s + f as rounded; nothing of s is left where f is among the
//     lowest numbers, which "absorb" it, multiples of 64 where f is -1e9
//   twice: a selection overrides what is inside it; what is added outside of
//     it or to another mask adds up, and the keys that fewer masks hide take
//     all of the weight
// Scores are taken to be numbers that the lowest ones absorb, a hidden key's
// weight to be 0 beside a seen one's where f <= -1e9 (-3e4 in half precision).
// In half precision scores stay in f32, as they do in the op.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "passes/rewrite/rewriter.h"

namespace asyra {

// Keys that row i sees by position: those up to i, those above i - window.
struct KeyBand {
  bool causal = false;
  int64_t window = 0;  // 0: all
  bool any() const { return causal || window > 0; }
  friend bool operator==(const KeyBand& a, const KeyBand& b) {
    return a.causal == b.causal && a.window == b.window;
  }
};

// One mask applied to the scores. Masks broadcast, right aligned, to [..,
// queries, keys].
struct MaskStep {
  enum Kind : uint8_t {
    kAdd,     // scores + mask * factor
    kSelect,  // scores where `mask` is `seen` and in `band`, elsewhere `hidden`
  } kind = kAdd;
  ValueId mask = kNoValue;  // of a select it may be left out
  double factor = 1;
  bool seen = true;
  double hidden = -std::numeric_limits<double>::infinity();
  KeyBand band;
  DType dtype = DType::kF32;  // of the scores there
};

struct AttentionMask {
  KeyBand band;
  // Score of the keys that `band` and `seen` hide.
  double hidden = -std::numeric_limits<double>::infinity();
  std::vector<ValueId> seen;  // bool, all of which let a key be seen
  std::vector<ValueId>
      added;                  // float, added to the scores; of those hidden too
  bool may_be_empty = false;  // rows whose scores are all -inf
};

struct ScoreShape {
  int rank;  // 3: a mask of rank 3 has batches, not heads, in front
  int64_t queries, keys;
};

// Numbers up to it hide a key beside any score.
double LowNumber(DType dtype);
// Returns the lowest finite number.
double LowestNumber(DType dtype);
// Returns whether adding `number` to a score absorbs the score.
bool Absorbs(double number, DType dtype);

// Combines all masks, from the scores outwards, as one; nothing if no attribute
// and operand are equivalent, and then `why` has the reason.
absl::StatusOr<std::optional<AttentionMask>> CombineMasks(
    Rewriter& to, absl::Span<const MaskStep> steps, const ScoreShape& scores,
    std::string* why);

// Returns one operand of rank 4 for `seen` and `added`, or kNoValue for none.
// Both exist only if `hidden` is -inf.
absl::StatusOr<ValueId> MaskOperand(Rewriter& to, const AttentionMask& mask,
                                    const ScoreShape& scores);

}  // namespace asyra
