// Losses of parts of rows, and their gradients: ir/ops/loss_parts.cc.
#include "executor/cuda/kernels/loss_parts.h"

#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

LossParts PartsOf(const KernelUse& use, const Type& sums) {
  const Type &x = use.operand(0), &global = use.global_operands()[0];
  int last = x.rank() - 1;
  LossParts p{.element = ElementOf(x.dtype),
              .label = ElementOf(use.operand(1).dtype),
              .rows = use.operand(1).num_elements(),
              .parts = sums.size(sums.rank() - 1),
              .start = use.Start(global, last),
              .classes = use.attrs().Int("classes")};
  p.size = x.size(last) / p.parts;
  if (p.classes < 0) p.classes = global.size(last);
  return p;
}

class PartsKernel : public CudaKernel {
 public:
  explicit PartsKernel(const KernelUse& use) : p_(PartsOf(use, use.result(0))) {
    p_.ignored = use.attrs().Int("ignore_index");
  }
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(PartsOfLoss(p_, args.operands[0], args.operands[1],
                           args.results[0], args.results[1], stream));
    return absl::OkStatus();
  }

 private:
  LossParts p_;
};

class PartsGradKernel : public CudaKernel {
 public:
  explicit PartsGradKernel(const KernelUse& use)
      : p_(PartsOf(use, use.operand(2))) {}
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(GradOfLossParts(p_, args.operands[0], args.operands[1],
                               args.operands[2], args.operands[3],
                               args.operands[4], args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  LossParts p_;
};

template <typename K>
Prepared Prepare(const KernelUse& use) {
  return std::make_unique<K>(use);
}

bool HasColumns(const KernelUse& use) {
  return use.operand(0).size(use.operand(0).rank() - 1) > 0;
}

}  // namespace

std::vector<CudaKernelDef> LossPartKernels() {
  return {{"cross_entropy_parts", HasColumns, Prepare<PartsKernel>},
          {"cross_entropy_parts_grad", HasColumns, Prepare<PartsGradKernel>}};
}

}  // namespace asyra::cuda
