// The kernels of the cuda device, in the groups of ir/ops. To add one, add its
// definition to a group in kernels/; to add a group, list it here and in
// kernel_list.cc. tests/cuda runs every kernel on the samples of its op.
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
  // Whether it computes this use: element types, attributes, shapes.
  std::function<bool(const KernelUse& use)> supports;
  // With the GPU of the rank current.
  std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelUse& use)>
      prepare;
  // Describes a generated kernel, without a GPU; null for other kernels.
  std::function<cuda::GeneratedUse(const KernelUse& use)> describe = nullptr;
};

// The first one listed that supports the use, or null.
const CudaKernelDef* FindCudaKernel(const KernelUse& use);

namespace cuda {

std::vector<CudaKernelDef> AttentionKernels();
std::vector<CudaKernelDef> TopKKernels();
std::vector<CudaKernelDef> ConvKernels();
std::vector<CudaKernelDef> CopyKernels();
std::vector<CudaKernelDef> ElementwiseKernels();
std::vector<CudaKernelDef> FusionKernels();
std::vector<CudaKernelDef> LookupKernels();
std::vector<CudaKernelDef> LossPartKernels();
std::vector<CudaKernelDef> MatmulKernels();
std::vector<CudaKernelDef> MoeKernels();
std::vector<CudaKernelDef> NormGradKernels();
std::vector<CudaKernelDef> PadKernels();
std::vector<CudaKernelDef> GatherScatterKernels();
std::vector<CudaKernelDef> RandomKernels();
std::vector<CudaKernelDef> ReduceKernels();
std::vector<CudaKernelDef> RotaryKernels();
std::vector<CudaKernelDef> RowKernels();
std::vector<CudaKernelDef> ScanKernels();
std::vector<CudaKernelDef> TrainKernels();

}  // namespace cuda
}  // namespace asyra
