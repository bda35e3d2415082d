// A use of attention or attention_grad as device code takes it, and the part of
// it that cuDNN's masks can say.
#pragma once

#include <optional>

#include "executor/cuda/kernels/attention.h"
#include "executor/kernel.h"
#include "ir/ops/attention.h"

namespace asyra::cuda {

using ops::kFirstExtra, ops::kFirstGradExtra;
using ops::kGradDy, ops::kGradLogSums, ops::kGradY;

// Returns whether the rows of a device are neighbours (attribute `runs`), and
// its keys of one shard: a problem has no others.
bool HasOneRun(const KernelUse& use);
// `first` is one of these two.
AttentionProblem ProblemOf(const KernelUse& use, int first);

// Numbers of the optional operands of a use; -1: none.
struct AttentionOperands {
  int mask = -1, lengths = -1, sinks = -1, starts = -1;
  AttentionOperands(const KernelUse& use, int first);
  // Returns the data without what only gradients have.
  AttentionData DataOf(const KernelArgs& args) const;
};

// The keys that rows see, as a diagonal band of a matrix of rows by keys.
// Aligned top left, row i sees the keys in (i - left, i + right]; bottom right,
// the last row ends on the last key: i counts from keys - rows (of each batch
// entry, where there are lengths). Without a bound there is none on that side.
struct AttentionBand {
  // The range of keys that some row can see.
  int64_t first_key = 0, keys = 0;
  bool bottom_right = false;
  std::optional<int64_t> left, right;
};

// None where the visible keys are not such a band, or where a row may see no
// key and its result should be 0.
std::optional<AttentionBand> BandOf(const AttentionProblem& problem,
                                    bool has_lengths);

}  // namespace asyra::cuda
