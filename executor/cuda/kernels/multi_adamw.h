// Updates of several parameters by one kernel (ir/ops/optim.cc, multi_adamw).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Values that all parameters of an update share.
struct AdamWNumbers {
  double beta1 = 0, beta2 = 0, log_beta1 = 0, log_beta2 = 0;
  double eps = 0, decay = 0;
  bool in_halves = false;  // params, which are f32 (ir/halves.h)
  Element rate = Element::kF32, step = Element::kI64, scale = Element::kF32;
};
// Scalars on the device; without a scale gradients are taken as they are.
struct AdamWScalars {
  const void *rate = nullptr, *step = nullptr, *scale = nullptr;
};

// One parameter: `count` elements, dense. What is new may be where its own old
// values are.
struct AdamWTensor {
  const void *param = nullptr, *grad = nullptr, *m = nullptr, *v = nullptr;
  void *new_param = nullptr, *new_m = nullptr, *new_v = nullptr;
  int64_t count = 0;
};

// Arguments of a kernel have 4 KiB.
inline constexpr int kMostAdamWTensors = 56;

// Parameters of one type each for what is updated and for gradients, at most
// kMostAdamWTensors of them, in one launch.
cudaError_t UpdateByAdamW(const AdamWNumbers& numbers,
                          const AdamWScalars& scalars, Element param,
                          Element grad, const AdamWTensor* tensors, int count,
                          cudaStream_t stream);

}  // namespace asyra::cuda
