// Cross entropy as parts of the vocabulary, of which a model axis may shard any
// number, without gathering logits: over P devices
//
//   %y = cross_entropy(%x, %labels)                 : f32[n]    of f32[n, V]
// becomes
//   %sums, %own = cross_entropy_parts(%x, %labels)  : f32[n, P], f32[n, P]
//   %sum  = log_sum_exp(%sums)                      : f32[n]
//   %at   = reduce_sum(%own)                        : f32[n]
//   %y    = select(%labels = ignored, 0, %sum - %at)
//
// whose ops are parallel along the parts or sum over them: a scalar for each
// token and device travels, forward and for the gradient (Megatron-LM's
// vocabulary-parallel cross entropy, Shoeybi et al. 2019, section 3). Logits
// are read once, and once by their gradient, which may overwrite them. 16-bit
// logits that are cast for the loss alone are read as they are. On one device,
// or where the devices do not divide the vocabulary, it is one part.
//
// Where padding of the vocabulary (pad_dims.h) is sliced off before the loss,
// the padded logits are taken; padding counts for nothing.
#pragma once

#include "absl/status/statusor.h"
#include "passes/pass.h"

namespace asyra {

// Splits the loss of a program of stage global, for the axes of its mesh that
// shard weights.
absl::StatusOr<bool> SplitLoss(Program& program, const PassOptions& options,
                               PassContext& context);

}  // namespace asyra
