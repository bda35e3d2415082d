// Cross entropy over a vocabulary that a model axis shards, without gathering
// logits: over P devices
//
//   %y = cross_entropy(%x, %labels)                 : f32[n]    of f32[n, V]
// becomes
//   %parts = reshape(%x)                            : f32[n, P, V/P]
//   %sums  = log_sum_exp(log_sum_exp(%parts))       : f32[n]
//   %at    = equal(%labels as a column, iota)       : bool[n, V]
//   %own   = reduce_sum(select(%at, %x, 0))         : f32[n]
//   %y     = select(%labels = ignored, 0, %sums - %own)
//
// whose ops are parallel along the vocabulary or sum over it: a number for each
// token and device travels, forward and for the gradient (Megatron-LM's
// vocabulary-parallel cross entropy, Shoeybi et al. 2019, section 3). And
// everything of the vocabulary's size is elementwise, or one row reduction of
// it: fused, the gradient is one kernel that reads logits once.
//
// Where padding of the vocabulary (pad_dims.h) is sliced off before the loss,
// the padded logits are taken, with -inf in the padding.
//
// A label outside of the vocabulary, which cross_entropy refuses on a cpu, has
// the loss %sums here.
#pragma once

#include "absl/status/statusor.h"
#include "passes/pass.h"

namespace asyra {

// Of a program of stage global, for the axes of its mesh that shard weights.
absl::StatusOr<bool> SplitLoss(Program& program, const PassOptions& options,
                               PassContext& context);

}  // namespace asyra
