// Losses of parts of rows, and their gradients (ir/ops/loss_parts.cc), on the
// GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Rows of logits in `parts` parts of `size` columns each. Sums are f32, or f64
// of f64.
struct LossParts {
  Element element = Element::kF32, label = Element::kI64;
  int64_t rows = 0, parts = 1, size = 0;
  int64_t start = 0;    // the first column here, of all ranks' columns
  int64_t classes = 0;  // columns from this one on, of all ranks', are padding
  int64_t ignored = 0;  // label of rows without one
};

// Reads logits once. A label that is no class gives a target that is not a
// number.
cudaError_t PartsOfLoss(const LossParts& p, const void* logits,
                        const void* labels, void* log_sums, void* targets,
                        cudaStream_t stream);

// Reads logits once and writes as much; `to` may be `logits`.
cudaError_t GradOfLossParts(const LossParts& p, const void* logits,
                            const void* labels, const void* log_sums,
                            const void* of_log_sums, const void* of_targets,
                            void* to, cudaStream_t stream);

}  // namespace asyra::cuda
