// Attention and its gradients (ir/ops/attention.cc) by kernels of our own: any
// float type, every operand and attribute, online softmax over tiles of keys,
// sums in f32 (f64 for f64). For what cuDNN does not take, and to check it by.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Shapes are those of one rank: q [b, s, h, d], k [b, t, g, d], v [b, t, g, e],
// dense.
struct AttentionProblem {
  Element element = Element::kF32;  // of q, k, v, dy and the results
  int64_t b = 0, s = 0, h = 0, d = 0, t = 0, g = 0, e = 0;
  int64_t keys = 0;  // the first ones of t, the only ones that are seen
  double scale = 1, softcap = 0;
  double hidden = 0;  // score of keys that the band or a bool mask hides
  bool empty_is_nan = false;  // rows whose scores are all -inf; else 0
  // Row i is at key first_row + i and sees keys > row - window and < row +
  // window_after; 0: no limit. With `at_end` lengths[b] is added to first_row.
  int64_t first_row = 0, window = 0, window_after = 0;
  bool at_end = false;
  // Strides of the mask over [b, h, s, t], 0 where it broadcasts.
  Element mask = Element::kBool, lengths = Element::kI64, sinks = Element::kF32,
          starts = Element::kI64;
  int64_t mask_strides[4] = {};
};

// Values on the device; absent ones are null.
struct AttentionData {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  // Operands of gradients: the results of attention, and the gradient of y.
  const void *y = nullptr, *log_sums = nullptr, *dy = nullptr;
  const void *mask = nullptr, *lengths = nullptr, *sinks = nullptr,
             *starts = nullptr;
};

// Returns whether the tiles of the problem fit an SM's shared memory: heads of
// up to a few hundred elements.
bool FitsAttention(const AttentionProblem& problem);

// y [b, s, h, e]; `log_sums`, which may be null, [b, h, s] in f32 (f64 for
// f64).
cudaError_t Attention(const AttentionProblem& problem,
                      const AttentionData& data, void* y, void* log_sums,
                      cudaStream_t stream);

// dy . y of each row of q, that all gradients begin with.
int64_t AttentionMeansBytes(const AttentionProblem& problem);
cudaError_t AttentionMeans(const AttentionProblem& problem,
                           const AttentionData& data, void* means,
                           cudaStream_t stream);
cudaError_t AttentionGradQ(const AttentionProblem& problem,
                           const AttentionData& data, const void* means,
                           void* dq, cudaStream_t stream);
cudaError_t AttentionGradKV(const AttentionProblem& problem,
                            const AttentionData& data, const void* means,
                            void* dk, void* dv, cudaStream_t stream);
// Computes the gradient of a float mask, in the problem's shape where its
// stride is not 0.
cudaError_t AttentionGradMask(const AttentionProblem& problem,
                              const AttentionData& data, const void* means,
                              void* dmask, cudaStream_t stream);
cudaError_t AttentionGradSinks(const AttentionProblem& problem,
                               const AttentionData& data, const void* means,
                               void* dsinks, cudaStream_t stream);

// lengths[0, b) clamped to [0, t] as i32 at `to`, followed by b times s: the
// form that cuDNN takes them in.
cudaError_t WriteLengths(const AttentionProblem& problem, const void* lengths,
                         int32_t* to, cudaStream_t stream);

// Zeros in the f16 or bf16 result of each sequence of length 0, of which
// cuDNN makes NaNs, and inf in its log sums, which may be null. `lengths` as
// WriteLengths left them.
cudaError_t ClearEmpty(const AttentionProblem& problem, const int32_t* lengths,
                       void* y, void* log_sums, cudaStream_t stream);

}  // namespace asyra::cuda
