// Attention from its decomposition; brings attention ops into the form that
// kernels and sharding expect.
#pragma once

#include "passes/pass.h"

namespace asyra {

// softmax(q k^T * scale + mask) v becomes `attention`: scales on q, k or the
// scores, a softcap, casts around the softmax, a guard against rows of NaN,
// masks added or selected, sinks beside the scores. In these and in existing
// attention ops, repetition of the heads of k and v for grouped queries is
// removed, and masks that are provably causal, a window or all true become
// attributes; others stay operands. Every row keeps its result, also rows that
// see no key (attention_mask.h). If the op cannot express the masks, the
// decomposition stays and a remark says why.
absl::StatusOr<bool> RaiseAttention(Program& program,
                                    const PassOptions& options,
                                    PassContext& context);

}  // namespace asyra
