// The definition of a kernel of the cuda device, and of one that is generated.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "executor/cuda/codegen/expression.h"
#include "executor/cuda/codegen/loop.h"
#include "executor/cuda/device/cuda_kernel.h"

namespace asyra {

namespace cuda {

// The computation of a generated kernel (codegen.h).
struct GeneratedUse {
  Expression expression;
  Loop loop;
  // Operand of the use by operand of the expression; empty: the same ones.
  std::vector<int> operands = {};
};

}  // namespace cuda

struct CudaKernelDef {
  std::string_view op;
  // True for a use that it computes: element types, attributes, shapes.
  std::function<bool(const KernelUse& use)> supports;
  // Prepares the kernel, a CudaKernel; the GPU of the rank is current.
  std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelUse& use)>
      prepare;
  // Describes a generated kernel, without a GPU; null for other kernels.
  std::function<cuda::GeneratedUse(const KernelUse& use)> describe = nullptr;
};

}  // namespace asyra
