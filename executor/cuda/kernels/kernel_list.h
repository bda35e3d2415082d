// The kernels of the cuda device, in the groups of ir/ops. To add one, add its
// definition to a group in kernels/; to add a group, list it here and in
// kernel_list.cc. tests/cuda runs every kernel on the samples of its op.
#pragma once

#include <vector>

#include "executor/cuda/codegen/kernel_def.h"

namespace asyra {

// Returns the first one listed that supports the use, or null.
const CudaKernelDef* FindCudaKernel(const KernelUse& use);

namespace cuda {

std::vector<CudaKernelDef> AttentionKernels();
std::vector<CudaKernelDef> AttentionMergeKernels();
std::vector<CudaKernelDef> TopKKernels();
std::vector<CudaKernelDef> ConvKernels();
std::vector<CudaKernelDef> CopyKernels();
std::vector<CudaKernelDef> ElementwiseKernels();
std::vector<CudaKernelDef> FusionKernels();
std::vector<CudaKernelDef> LookupKernels();
std::vector<CudaKernelDef> LossPartKernels();
std::vector<CudaKernelDef> MaskLengthsKernels();
std::vector<CudaKernelDef> MatmulKernels();
std::vector<CudaKernelDef> MoeKernels();
std::vector<CudaKernelDef> NormGradKernels();
std::vector<CudaKernelDef> PackedRowsKernels();
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
