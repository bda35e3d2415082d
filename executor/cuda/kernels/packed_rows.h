// Packed rows of experts (ir/ops/packed_rows.cc) on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Choices of tokens, sorted by expert in groups.
struct PackedRouting {
  Element index = Element::kI64;  // of experts, places or sources
  int64_t choices = 0, k = 1;     // of a token
  int64_t group_rows = 0;         // choices of a group
  int64_t experts = 0;            // moe_sort
};
// Bytes of device memory that moe_sort needs; 0: too many experts for it.
int64_t PackedSortBytes(const PackedRouting& routing);
cudaError_t PackedSort(const PackedRouting& routing, const void* experts,
                       void* workspace, int32_t* places, int32_t* sources,
                       int32_t* ends, cudaStream_t stream);
// Makes a row of `row_bytes` for each choice, of the token or choice in its
// group.
cudaError_t PackedDispatch(const PackedRouting& routing, const void* sources,
                           const void* tokens, int64_t row_bytes, void* rows,
                           cudaStream_t stream);
// The same of rows of `hidden` elements, each times the weight of its choice.
cudaError_t PackedWeighedDispatch(const PackedRouting& routing,
                                  const void* sources, Element element,
                                  const void* tokens, const void* weights,
                                  int64_t hidden, void* rows,
                                  cudaStream_t stream);
cudaError_t PackedCollect(const PackedRouting& routing, const void* places,
                          const void* rows, int64_t row_bytes, void* to,
                          cudaStream_t stream);
cudaError_t PackedCombine(const PackedRouting& routing, const void* places,
                          Element element, const void* rows,
                          const void* weights, int64_t hidden, void* to,
                          cudaStream_t stream);

// The product of the row of each choice with its token's row, [choices].
cudaError_t PackedDot(const PackedRouting& routing, const void* places,
                      Element element, const void* rows, const void* tokens,
                      int64_t hidden, void* to, cudaStream_t stream);

// A matmul of rows [rows, k] with weights [experts, k, n], or [experts, n, k];
// with `wgrad` of x [rows, m] and dy [rows, n] to sums [leads, experts, m, n].
// Without k and m it is a sum of rows [rows, n].
struct PackedProblem {
  Element element = Element::kF32, index = Element::kI32;
  bool wgrad = false, transpose_b = false;
  bool residual = false;  // rows [rows, n] that the result is added to
  int64_t rows = 0, groups = 1, groups_of_lead = 1, experts = 1;
  int64_t k = 0, m = 0, n = 0;
  int64_t group_rows() const { return rows / groups; }
  int64_t leads() const { return groups / groups_of_lead; }
};
// Compute by ordinary arithmetic, for any element.
cudaError_t PackedMatmul(const PackedProblem& problem, const void* rows,
                         const void* weights, const void* ends,
                         const void* residual, void* y, cudaStream_t stream);
cudaError_t PackedWgrad(const PackedProblem& problem, const void* x,
                        const void* dy, const void* ends, void* sums,
                        cudaStream_t stream);
// [leads, experts, n], and values [experts, n] for each row.
cudaError_t PackedSum(const PackedProblem& problem, const void* rows,
                      const void* ends, void* sums, cudaStream_t stream);
cudaError_t PackedExpand(const PackedProblem& problem, const void* values,
                         const void* ends, int64_t row_bytes, void* rows,
                         cudaStream_t stream);

}  // namespace asyra::cuda
