#include "executor/cuda/kernels/kernel_list.h"

#include "absl/container/flat_hash_map.h"

namespace asyra {
namespace {

using KernelsByOp =
    absl::flat_hash_map<std::string_view, std::vector<CudaKernelDef>>;

KernelsByOp ListKernels() {
  KernelsByOp by_op;
  for (auto group : {cuda::AttentionMergeKernels,
                     cuda::AttentionKernels,
                     cuda::TopKKernels,
                     cuda::ConvKernels,
                     cuda::CopyKernels,
                     cuda::ElementwiseKernels,
                     cuda::FusionKernels,
                     cuda::LookupKernels,
                     cuda::LossPartKernels,
                     cuda::MaskLengthsKernels,
                     cuda::MatmulKernels,
                     cuda::MoeKernels,
                     cuda::NormGradKernels,
                     cuda::PackedRowsKernels,
                     cuda::PadKernels,
                     cuda::GatherScatterKernels,
                     cuda::RandomKernels,
                     cuda::ReduceKernels,
                     cuda::RotaryKernels,
                     cuda::RowKernels,
                     cuda::ScanKernels,
                     cuda::TrainKernels}) {
    for (const CudaKernelDef& def : group()) by_op[def.op].push_back(def);
  }
  return by_op;
}

}  // namespace

const CudaKernelDef* FindCudaKernel(const KernelUse& use) {
  static const KernelsByOp* const kernels = new KernelsByOp(ListKernels());
  auto found = kernels->find(use.def().name);
  if (found == kernels->end()) return nullptr;
  for (const CudaKernelDef& def : found->second) {
    if (def.supports(use)) return &def;
  }
  return nullptr;
}

}  // namespace asyra
