// Generated kernels (codegen.h), compiled and ready to be launched.
#pragma once

#include <memory>

#include "executor/cuda/codegen/codegen.h"
#include "executor/cuda/codegen/kernel_def.h"

namespace asyra::cuda {

class GeneratedKernel {
 public:
  // Compiles for the current GPU.
  static absl::StatusOr<GeneratedKernel> Create(const Expression& expression,
                                                const Loop& loop);

  // Operands, then results. Errors: an address that is not a multiple of 16.
  absl::Status Enqueue(absl::Span<void* const> operands,
                       absl::Span<void* const> results,
                       cudaStream_t stream) const;

 private:
  cudaKernel_t kernel_ = nullptr;
  unsigned blocks_ = 0;
  int threads_ = 0;
};

// Returns the kernel of an op that is one expression: `describe` says of a use
// which, of the use's own operands and results.
CudaKernelDef Generated(std::string_view op,
                        bool (*supports)(const KernelUse& use),
                        GeneratedUse (*describe)(const KernelUse& use));

}  // namespace asyra::cuda
