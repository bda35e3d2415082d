// Attention from its decomposition, and attention ops brought into the form
// that kernels and sharding like.
#pragma once

#include "passes/pass.h"

namespace asyra {

// softmax(q k^T * scale + mask) v becomes `attention`: scales on q, k or the
// scores, a softcap, casts around the softmax, a guard against rows of NaN,
// masks added or selected, sinks beside the scores. In these and in ops that
// were there already, heads of k and v that were repeated for grouped queries
// are not, and masks that are provably causal, a window or all true become
// attributes; others stay operands. No row gets another result by that, those
// that see no key included (attention_mask.h); where the op has no masks of
// that meaning, its parts stay and a remark says why.
absl::StatusOr<bool> RaiseAttention(Program& program,
                                    const PassOptions& options,
                                    PassContext& context);

}  // namespace asyra
