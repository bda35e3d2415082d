// The loss and its gradient in chunks of tokens, so that the logits of all
// tokens are never there at once (Liger's and TorchTitan's chunked loss).
//
// Logits are by far the largest values of a step where the vocabulary is large:
// 8192 tokens of 128,256 words are 2 GiB in bf16. But each token's loss, the
// gradient of its logits, and what follows from that for its hidden state and
// for the head's weight and bias need no other token. So what is between the
// matmul of the head and the matmuls and sums that read the gradient of its
// logits runs chunk by chunk, to the end of one before the next; the weight's
// gradient is summed in place. Only the loss of each token, the gradient of the
// hidden states and that sum are whole.
//
// It costs that the sum is read and written once for each chunk, and that
// collectives in between carry less at a time.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Runs the loss of a local program in chunks. Options: chunks (int, default 4),
// of the batch if it divides by them on each device, else of the sequence. A
// program without a loss of logits stays as it is. Errors: neither dimension
// divides, or an op in between needs all tokens; it is named.
absl::StatusOr<bool> ChunkLoss(Program& program, const PassOptions& options,
                               PassContext& context);

}  // namespace asyra
