// Attention and its gradients (ir/ops/attention.cc) by cuDNN where it supports
// the use, else by our own kernels on tensor cores, else by those for any type.
#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/device/sm_partition.h"
#include "executor/cuda/flash/flash.h"
#include "executor/cuda/kernels/attention_problem.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

bool HasLogSums(const KernelUse& use) { return use.num_results() > 1; }

class AttentionKernel : public CudaKernel {
 public:
  explicit AttentionKernel(const KernelUse& use)
      : problem_(ProblemOf(use, kFirstExtra)), operands_(use, kFirstExtra) {}

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    void* log_sums = args.results.size() > 1 ? args.results[1] : nullptr;
    ASYRA_CUDA(Attention(problem_, operands_.DataOf(args), args.results[0],
                         log_sums, stream));
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
    return AttentionMeansBytes(problem_);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    AttentionData data = operands_.DataOf(args);
    data.y = args.operands[kGradY];
    data.log_sums = args.operands[kGradLogSums];
    data.dy = args.operands[kGradDy];
    void* means = args.workspace;
    ASYRA_CUDA(AttentionMeans(problem_, data, means, stream));
    void* to = args.results[0];
    if (of_ == "qkv") {
      ASYRA_CUDA(AttentionGradQ(problem_, data, means, to, stream));
      ASYRA_CUDA(AttentionGradKV(problem_, data, means, args.results[1],
                                 args.results[2], stream));
    } else if (of_ == "mask") {
      ASYRA_CUDA(AttentionGradMask(problem_, data, means, to, stream));
    } else {
      ASYRA_CUDA(AttentionGradSinks(problem_, data, means, to, stream));
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
  return HasOneRun(use) && problem.d > 0 && problem.e > 0 &&
         FitsAttention(problem);
}

// Gradients through rows of NaN are left to the reference.
bool SupportsGrad(const KernelUse& use) {
  AttentionProblem problem = ProblemOf(use, kFirstGradExtra);
  return HasOneRun(use) && !problem.empty_is_nan && problem.d > 0 &&
         problem.e > 0 && FitsAttention(problem);
}

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareWhole(const KernelUse& use) {
  AttentionProblem problem = ProblemOf(use, kFirstExtra);
  AttentionOperands operands(use, kFirstExtra);
  auto kernel = PrepareCudnnAttention(problem, operands, HasLogSums(use));
  if (!absl::IsUnimplemented(kernel.status())) return kernel;
  kernel = PrepareFlashAttention(problem, operands, HasLogSums(use));
  if (!absl::IsUnimplemented(kernel.status())) return kernel;
  return std::make_unique<AttentionKernel>(use);
}

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareWholeGrad(
    const KernelUse& use) {
  if (use.attrs().Get<std::string>("of") == "qkv") {
    AttentionProblem problem = ProblemOf(use, kFirstGradExtra);
    AttentionOperands operands(use, kFirstGradExtra);
    auto kernel = PrepareCudnnAttentionGrad(problem, operands);
    if (!absl::IsUnimplemented(kernel.status())) return kernel;
    kernel = PrepareFlashAttentionGrad(problem, operands);
    if (!absl::IsUnimplemented(kernel.status())) return kernel;
  }
  return std::make_unique<AttentionGradKernel>(use);
}

// cuDNN's attention kernels use all SMs of the stream's context.
template <
    absl::StatusOr<std::unique_ptr<CudaKernel>> (*Whole)(const KernelUse&)>
absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<CudaKernel> kernel, Whole(use));
  if (use.sm_margin() == 0) return kernel;
  return OnSmPartition(std::move(kernel), use.sm_margin());
}

}  // namespace

std::vector<CudaKernelDef> AttentionKernels() {
  return {{"attention", Supports, Prepare<PrepareWhole>},
          {"attention_grad", SupportsGrad, Prepare<PrepareWholeGrad>}};
}

}  // namespace asyra::cuda
