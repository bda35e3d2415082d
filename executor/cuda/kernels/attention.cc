// Attention (ir/ops/attention.cc) by cuDNN where it supports the use, otherwise
// by kernels of our own; gradients always by these.
#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/device/sm_partition.h"
#include "executor/cuda/kernels/attention_problem.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

constexpr int kFirstExtra = 3;      // after q, k, v
constexpr int kFirstGradExtra = 4;  // after q, k, v, dy

class AttentionKernel : public CudaKernel {
 public:
  explicit AttentionKernel(const KernelUse& use)
      : problem_(ProblemOf(use, kFirstExtra)), operands_(use, kFirstExtra) {}

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(Attention(problem_, operands_.DataOf(args), args.results[0],
                         nullptr, stream));
    return absl::OkStatus();
  }

 private:
  AttentionProblem problem_;
  AttentionOperands operands_;
};

class AttentionGradKernel : public CudaKernel {
 public:
  explicit AttentionGradKernel(const KernelUse& use)
      : problem_(ProblemOf(use, kFirstGradExtra)),
        operands_(use, kFirstGradExtra),
        of_(use.attrs().Get<std::string>("of")) {}

  int64_t workspace_bytes() const override {
    return AttentionStatisticsBytes(problem_);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    AttentionData data = operands_.DataOf(args);
    data.dy = args.operands[3];
    void* rows = args.workspace;
    ASYRA_CUDA(AttentionStatistics(problem_, data, rows, stream));
    void* to = args.results[0];
    if (of_ == "q") {
      ASYRA_CUDA(AttentionGradQ(problem_, data, rows, to, stream));
    } else if (of_ == "kv") {
      ASYRA_CUDA(
          AttentionGradKV(problem_, data, rows, to, args.results[1], stream));
    } else if (of_ == "mask") {
      ASYRA_CUDA(AttentionGradMask(problem_, data, rows, to, stream));
    } else {
      ASYRA_CUDA(AttentionGradSinks(problem_, data, rows, to, stream));
    }
    return absl::OkStatus();
  }

 private:
  AttentionProblem problem_;
  AttentionOperands operands_;
  std::string of_;
};

bool Supports(const KernelUse& use) {
  AttentionProblem problem = ProblemOf(use, kFirstExtra);
  return problem.d > 0 && problem.e > 0 && FitsAttention(problem);
}

// Gradients through rows of NaN are left to the reference.
bool SupportsGrad(const KernelUse& use) {
  AttentionProblem problem = ProblemOf(use, kFirstGradExtra);
  return !problem.empty_is_nan && problem.d > 0 && problem.e > 0 &&
         FitsAttention(problem);
}

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareWhole(const KernelUse& use) {
  auto kernel = PrepareCudnnAttention(ProblemOf(use, kFirstExtra),
                                      AttentionOperands(use, kFirstExtra));
  if (!absl::IsUnimplemented(kernel.status())) return kernel;
  return std::make_unique<AttentionKernel>(use);
}

// cuDNN's attention kernels use all SMs of the stream's context.
absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<CudaKernel> kernel, PrepareWhole(use));
  if (use.sm_margin() == 0) return kernel;
  return OnSmPartition(std::move(kernel), use.sm_margin());
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareGrad(const KernelUse& use) {
  return std::make_unique<AttentionGradKernel>(use);
}

}  // namespace

std::vector<CudaKernelDef> AttentionKernels() {
  return {{"attention", Supports, Prepare},
          {"attention_grad", SupportsGrad, PrepareGrad}};
}

}  // namespace asyra::cuda
