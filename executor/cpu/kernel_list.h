// The kernels of the cpu, in the groups of ir/ops. To add one, add its
// definition to a group in kernels/; to add a group, list it here and in
// kernel_list.cc. The conformance loop of tests/executor runs every kernel on
// the samples of its op.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "executor/cpu/cpu_kernel.h"

namespace asyra {

struct CpuKernelDef {
  std::string_view op;
  // True for a use that it computes: element types, attributes, shapes.
  std::function<bool(const KernelUse& use)> supports;
  std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelUse& use)>
      prepare;
};

// Returns the first one listed that supports the use, or null.
const CpuKernelDef* FindCpuKernel(const KernelUse& use);

namespace cpu {

std::vector<CpuKernelDef> ElementwiseKernels();
std::vector<CpuKernelDef> FunctionKernels();
std::vector<CpuKernelDef> ActivationKernels();
std::vector<CpuKernelDef> MatmulKernels();
std::vector<CpuKernelDef> RowKernels();
std::vector<CpuKernelDef> ReduceKernels();
std::vector<CpuKernelDef> CopyKernels();
std::vector<CpuKernelDef> LookupKernels();
std::vector<CpuKernelDef> RotaryKernels();
std::vector<CpuKernelDef> AttentionKernels();
std::vector<CpuKernelDef> AttentionGradKernels();
std::vector<CpuKernelDef> AttentionMergeKernels();
std::vector<CpuKernelDef> MaskLengthsKernels();
std::vector<CpuKernelDef> GatherScatterKernels();
std::vector<CpuKernelDef> PadKernels();
std::vector<CpuKernelDef> TopKKernels();
std::vector<CpuKernelDef> MoeKernels();
std::vector<CpuKernelDef> PackedRowsKernels();
std::vector<CpuKernelDef> RandomKernels();
std::vector<CpuKernelDef> TrainKernels();
std::vector<CpuKernelDef> LossPartKernels();
std::vector<CpuKernelDef> NormGradKernels();
std::vector<CpuKernelDef> ConvKernels();

}  // namespace cpu
}  // namespace asyra
