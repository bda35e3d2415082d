// The epilogue of a matmul, computed by cuBLASLt before the result is stored:
//   c = activation(a b + residual + bias)
// in f32, rounded once. Its gelu is the tanh formula.
#pragma once

#include "absl/status/status.h"
#include "executor/cuda/device/cuda_status.h"
#include "ir/gpu/epilogue.h"

namespace asyra::cuda {

struct GemmEpilogue {
  bool residual = false;  // with c's layout
  bool bias = false;      // n elements, the same for all rows
  Epilogue::Activation activation = Epilogue::kNone;

  friend auto operator<=>(const GemmEpilogue&, const GemmEpilogue&) = default;
};

// Addresses of the operands of an epilogue, or null.
struct EpilogueData {
  const void* residual = nullptr;
  const void* bias = nullptr;
};

// Enters bias and activation; a residual is the C of the call.
absl::Status SetEpilogue(const GemmEpilogue& epilogue, cudaDataType_t type,
                         cublasLtMatmulDesc_t operation);
// Sets the bias of an epilogue that has one; before each call.
absl::Status SetBias(const void* bias, cublasLtMatmulDesc_t operation);

}  // namespace asyra::cuda
