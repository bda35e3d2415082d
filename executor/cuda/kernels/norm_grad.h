// Gradients of norms (ir/ops/norm_grad.cc) on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Gradient of a norm of rows of `size` elements. Sums over rows are f32, or f64
// of f64: `sums` of them, for scale and for bias.
struct NormGrad {
  Element element = Element::kF32;
  int64_t rows = 0, size = 0;
  double eps = 0;
  bool centered = false;  // layer_norm
  int sums = 1;
  bool has_rest = false;  // that is added to dx
  int sm_margin = 0;      // SMs that are left to others
  // Set by PlanNormGrad.
  int held = 0;              // vectors of a row that a thread keeps; 0: any row
  bool row_of_warp = false;  // a row is a warp's, not a block's
  int threads = 0;
  int64_t blocks = 0;  // each has sums of its own until the end
  int64_t shared_bytes = 0;
  int64_t workspace_bytes = 0;
};

// Plans for the current GPU.
cudaError_t PlanNormGrad(NormGrad* p);

// `rest` only with has_rest, else null; dbias only where sums is 2. The order
// of all sums is fixed.
struct NormGradArgs {
  const void *x, *scale, *dy, *rest;
  void *dx, *dscale, *dbias, *workspace;
};
cudaError_t GradOfNorm(const NormGrad& p, const NormGradArgs& args,
                       cudaStream_t stream);

}  // namespace asyra::cuda
