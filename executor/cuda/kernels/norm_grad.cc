// Gradients of norms: ir/ops/norm_grad.cc.
#include "executor/cuda/kernels/norm_grad.h"

#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

class NormGradKernel : public CudaKernel {
 public:
  explicit NormGradKernel(const NormGrad& plan) : plan_(plan) {}
  int64_t workspace_bytes() const override { return plan_.workspace_bytes; }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    bool has_rest = args.operands.size() > 3;
    NormGradArgs values = {.x = args.operands[0],
                           .scale = args.operands[1],
                           .dy = args.operands[2],
                           .rest = has_rest ? args.operands[3] : nullptr,
                           .dx = args.results[0],
                           .dscale = args.results[1],
                           .dbias = plan_.sums > 1 ? args.results[2] : nullptr,
                           .workspace = args.workspace};
    ASYRA_CUDA(GradOfNorm(plan_, values, stream));
    return absl::OkStatus();
  }

 private:
  NormGrad plan_;
};

Prepared Prepare(const KernelUse& use) {
  NormGrad plan{.element = ElementOf(use.operand(0).dtype),
                .size = use.operand(1).num_elements(),
                .eps = use.attrs().Float("eps"),
                .centered = use.def().name == "layer_norm_grad",
                .sums = use.num_results() - 1,
                .has_rest = use.num_operands() > 3,
                .sm_margin = use.sm_margin()};
  if (plan.size > 0) plan.rows = use.operand(0).num_elements() / plan.size;
  ASYRA_CUDA(PlanNormGrad(&plan));
  return std::make_unique<NormGradKernel>(plan);
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CudaKernelDef> NormGradKernels() {
  return {{"rms_norm_grad", Always, Prepare},
          {"layer_norm_grad", Always, Prepare}};
}

}  // namespace asyra::cuda
