// The largest and smallest elements of lines (ir/ops/topk.cc), and the experts
// of tokens (ir/ops/moe_router.cc), on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// The first `count` along the middle of [outer, size, inner]: the larger
// (smaller) elements, not-a-number being the largest, and of equal ones the
// lower (higher) index first.
struct TopK {
  Element element = Element::kF32;
  int64_t outer = 1, size = 0, inner = 1, count = 1;
  bool largest = true, last = false;
};

// Into [outer, count, inner]; `values` may be null.
cudaError_t FindTopK(const TopK& top_k, const void* x, void* values,
                     int64_t* indices, cudaStream_t stream);

// Scores of `tokens` by expert, and the top k of each.
struct Router {
  Element element = Element::kF32;  // of logits and weights, a float
  int64_t tokens = 0, experts = 0, k = 1;
  bool softmax = true;    // else sigmoid
  bool normalize = true;  // weights sum to 1
};
// The most numbers that fit in shared memory.
inline constexpr int64_t kMostRouterNumbers = 6144;  // experts + k

cudaError_t ChooseExperts(const Router& router, const void* logits,
                          void* weights, int64_t* chosen, cudaStream_t stream);

}  // namespace asyra::cuda
