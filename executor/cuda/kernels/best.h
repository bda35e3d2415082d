// The largest and smallest elements of lines (ir/ops/topk.cc), and the experts
// of tokens (ir/ops/moe_router.cc), on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/kernels/element.h"

namespace asyra::cuda {

// The best `count` along the middle of [outer, size, inner]: the larger
// (smaller) elements, not-a-number being the largest, and of equal ones the
// lower (higher) index first.
struct Best {
  Element element = Element::kF32;
  int64_t outer = 1, size = 0, inner = 1, count = 1;
  bool largest = true, last = false;
};

// Into [outer, count, inner]; `values` may be null.
cudaError_t FindBest(const Best& best, const void* x, void* values,
                     int64_t* indices, cudaStream_t stream);

// Scores of `tokens` by expert, and the k best of each.
struct Router {
  Element element = Element::kF32;  // of logits and weights, a float
  int64_t tokens = 0, experts = 0, k = 1;
  bool softmax = true;    // else sigmoid
  bool normalize = true;  // weights sum to 1
};
// What fits in shared memory.
inline constexpr int64_t kMostRouterNumbers = 6144;  // experts + k

cudaError_t ChooseExperts(const Router& router, const void* logits,
                          void* weights, int64_t* chosen, cudaStream_t stream);

}  // namespace asyra::cuda
