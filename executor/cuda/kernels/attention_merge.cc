// Results of attention over parts of the keys as one.
#include "executor/cuda/kernels/attention_merge.h"

#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "ir/ops/infer.h"

namespace asyra::cuda {
namespace {

// Returns the element type of the parts that are not wide.
DType NarrowOf(const KernelUse& use) {
  for (int i = 0; i < use.num_operands(); i += 2) {
    DType dtype = use.operand(i).dtype;
    if (dtype != ops::SumType(dtype)) return dtype;
  }
  return use.result(0).dtype;
}

class MergeAttentionKernel : public CudaKernel {
 public:
  explicit MergeAttentionKernel(const KernelUse& use) {
    const Type& y = use.operand(0);
    DType narrow = NarrowOf(use);
    parts_.count = use.num_operands() / 2;
    parts_.element = ElementOf(narrow);
    parts_.b = y.size(0);
    parts_.s = y.size(1);
    parts_.h = y.size(2);
    parts_.e = y.size(3);
    for (int i = 0; i < parts_.count; ++i) {
      if (use.operand(2 * i).dtype != narrow) parts_.wide |= 1u << i;
    }
    parts_.wide_result = use.result(0).dtype != narrow;
  }

  // Parts of f16 and bf16 together are left to the reference.
  static bool Supports(const KernelUse& use) {
    DType narrow = NarrowOf(use);
    for (int i = 0; i < use.num_operands(); i += 2) {
      DType dtype = use.operand(i).dtype;
      if (dtype != narrow && dtype != ops::SumType(narrow)) return false;
    }
    DType result = use.result(0).dtype;
    return use.num_operands() <= 2 * kMostMergedParts &&
           (result == narrow || result == ops::SumType(narrow));
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    AttentionParts parts = parts_;
    for (int i = 0; i < parts.count; ++i) {
      parts.y[i] = args.operands[2 * i];
      parts.log_sums[i] = args.operands[2 * i + 1];
    }
    ASYRA_CUDA(MergeAttention(parts, args.results[0], args.results[1], stream));
    return absl::OkStatus();
  }

 private:
  AttentionParts parts_;
};

}  // namespace

std::vector<CudaKernelDef> AttentionMergeKernels() {
  return {{"attention_merge", MergeAttentionKernel::Supports,
           [](const KernelUse& use) -> absl::StatusOr<std::unique_ptr<Kernel>> {
             return std::make_unique<MergeAttentionKernel>(use);
           }}};
}

}  // namespace asyra::cuda
