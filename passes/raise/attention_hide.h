// One mask of attention, analysed: which keys it hides, and how.
#pragma once

#include <vector>

#include "passes/raise/attention_mask.h"

namespace asyra {

struct Hide {
  enum Kind : uint8_t {
    kNothing,    // changes no score
    kBias,       // adds unknown numbers
    kAdds,       // adds `number` where the key is hidden, 0 elsewhere
    kOverrides,  // scores are `number` where the key is hidden
  } kind = kNothing;
  DType dtype = DType::kF32;  // of the scores there
  double number = 0;
  // The keys that are seen: in the band, and by all of these.
  KeyBand band;
  std::vector<ValueId> seen;
  MaskStep step;  // kOverrides: what was read

  // kBias, kAdds: all that is added, and bounds on it.
  ValueId added = kNoValue;
  Range range = {0, 0};
  // Magnitude, if not 0, of the mask where the key is not seen; the mask is 0
  // where it is seen.
  double gate = 0;
  // Scaled after it was added, by a factor that is not a power of two.
  bool rounds = false;

  bool hides() const { return kind == kAdds || kind == kOverrides; }
  // A hidden key has weight 0 in a row that sees another key.
  bool is_low() const { return number <= LowNumber(dtype); }
};

absl::StatusOr<Hide> ReadStep(Rewriter& to, const MaskStep& step);

// Returns whether each row has a key at a position that none of `hides` hides.
bool EveryRowSees(Rewriter& in, absl::Span<const Hide* const> hides,
                  const ScoreShape& scores);

// Narrows `band` by a predicate over (query i, key j) that is exactly i >= j or
// j > i - window, or both; false for any other.
bool ReadBand(const Fact& fact, KeyBand* band);

// Returns the intersection of two bands.
KeyBand Both(const KeyBand& a, const KeyBand& b);

}  // namespace asyra
