// Tokens in the slots of their experts, and back (ir/ops/moe.cc) on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Choices [leads, tokens, k] of one rank have rows in buffers [leads, experts,
// slots]. Groups of choices that follow each other take slots in their order.
struct Routing {
  Element index = Element::kI64;
  int64_t choices = 0, k = 1;
  int64_t per_lead = 0, per_group = 0;  // choices
  // Experts are numbered over all ranks, `total`: those from `first` on are
  // here. At most kMostExperts in all.
  int64_t total = 0, first = 0, experts = 0;
  int64_t slots = 0, capacity = 0;  // of an expert; of them for each group

  // Rows of all buffers on this rank.
  int64_t rows() const {
    return per_lead > 0 ? choices / per_lead * experts * slots : 0;
  }
};
inline constexpr int64_t kMostExperts = 12288;

// rows[i] becomes the row of choice i, -1 where it has none here: beyond the
// capacity, on another rank, or no expert at all.
cudaError_t Route(const Routing& routing, const void* choices, int64_t* rows,
                  cudaStream_t stream);

// Fills all rows of the buffers: those that choices have get their tokens',
// others zeros. `choices` [routing.rows()] becomes what has each row.
cudaError_t PutTokens(const Routing& routing, const int64_t* rows,
                      const void* tokens, int64_t row_bytes, int64_t* choices,
                      void* buffers, cudaStream_t stream);
// Each choice gets its row, or zeros.
cudaError_t TakeRows(const Routing& routing, const int64_t* rows,
                     const void* buffers, int64_t row_bytes, void* to,
                     cudaStream_t stream);
// Each token gets the sum of its rows by weight, of `hidden` floats, in the
// order of its choices.
cudaError_t CombineRows(const Routing& routing, const int64_t* rows,
                        Element element, const void* buffers,
                        const void* weights, int64_t hidden, void* to,
                        cudaStream_t stream);

}  // namespace asyra::cuda
