#include "executor/cpu/kernel_list.h"

#include "absl/container/flat_hash_map.h"

namespace asyra {
namespace {

using KernelsByOp =
    absl::flat_hash_map<std::string_view, std::vector<CpuKernelDef>>;

KernelsByOp ListKernels() {
  KernelsByOp by_op;
  for (auto group : {cpu::ElementwiseKernels,   cpu::FunctionKernels,
                     cpu::ActivationKernels,    cpu::MatmulKernels,
                     cpu::RowKernels,           cpu::ReduceKernels,
                     cpu::CopyKernels,          cpu::LookupKernels,
                     cpu::RotaryKernels,        cpu::AttentionKernels,
                     cpu::AttentionGradKernels, cpu::MaskLengthsKernels,
                     cpu::GatherScatterKernels, cpu::PadKernels,
                     cpu::TopKKernels,          cpu::MoeKernels,
                     cpu::PackedRowsKernels,    cpu::RandomKernels,
                     cpu::TrainKernels,         cpu::LossPartKernels,
                     cpu::NormGradKernels,      cpu::ConvKernels,
                     cpu::AttentionMergeKernels}) {
    for (const CpuKernelDef& def : group()) by_op[def.op].push_back(def);
  }
  return by_op;
}

}  // namespace

const CpuKernelDef* FindCpuKernel(const KernelUse& use) {
  static const KernelsByOp* const kernels = new KernelsByOp(ListKernels());
  auto found = kernels->find(use.def().name);
  if (found == kernels->end()) return nullptr;
  for (const CpuKernelDef& def : found->second) {
    if (def.supports(use)) return &def;
  }
  return nullptr;
}

}  // namespace asyra
