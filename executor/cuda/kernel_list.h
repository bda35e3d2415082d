// The kernels of the cuda device, in the groups of ir/ops. To add one, add its
// definition to a group in kernels/; to add a group, list it here and in
// kernel_list.cc. tests/cuda runs every kernel on the samples of its op.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "executor/cuda/cuda_kernel.h"

namespace asyra {

struct CudaKernelDef {
  std::string_view op;
  // Whether it computes this use: element types, attributes, shapes.
  std::function<bool(const KernelUse& use)> supports;
  // With the GPU of the rank current.
  std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelUse& use)>
      prepare;
};

// The first one listed that supports the use, or null.
const CudaKernelDef* FindCudaKernel(const KernelUse& use);

namespace cuda {

std::vector<CudaKernelDef> MatmulKernels();

}  // namespace cuda
}  // namespace asyra
