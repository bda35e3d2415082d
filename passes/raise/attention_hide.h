// One mask of attention, read: which keys it hides, and how.
#pragma once

#include <vector>

#include "passes/raise/attention_mask.h"

namespace asyra {

struct Hide {
  enum Kind : uint8_t {
    kNothing,    // changes no score
    kBias,       // adds numbers of which nothing else is known
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
  // Not 0: it is 0 where the key is seen and of this size elsewhere.
  double gate = 0;
  // Scaled after it was added, by no power of two.
  bool rounds = false;

  bool hides() const { return kind == kAdds || kind == kOverrides; }
  // No weight is left to a hidden key beside one that is seen.
  bool is_low() const { return number <= LowNumber(dtype); }
};

absl::StatusOr<Hide> ReadStep(Rewriter& to, const MaskStep& step);

// Whether each row sees a key that none of these hides, by where it is.
bool EveryRowSees(Rewriter& in, absl::Span<const Hide* const> hides,
                  const ScoreShape& scores);

// What both of two bands let be seen.
KeyBand Both(const KeyBand& a, const KeyBand& b);

}  // namespace asyra
