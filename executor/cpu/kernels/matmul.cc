// Matmuls (ir/ops/matmul.cc). Half precision is computed in single,
// converted in the workspace.
#include "executor/cpu/convert.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "executor/matmul_plan.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

GemmShape ShapeOf(const MatmulPlan& plan, DType dtype) {
  GemmShape gemm;
  gemm.dtype = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  gemm.m = plan.m;
  gemm.n = plan.n;
  gemm.k = plan.k;
  gemm.a_row = plan.transpose_a ? 1 : gemm.k;
  gemm.a_column = plan.transpose_a ? gemm.m : 1;
  gemm.b_row = plan.transpose_b ? 1 : gemm.n;
  gemm.b_column = plan.transpose_b ? gemm.k : 1;
  gemm.c_row = gemm.n;
  return gemm;
}

class MatmulKernel : public CpuKernel {
 public:
  MatmulKernel(const KernelUse& use, DType computed, MatmulPlan plan,
               std::unique_ptr<Gemm> gemm)
      : dtype_(use.operand(0).dtype),
        result_(use.result(0).dtype),
        computed_(computed),
        a_elements_(use.operand(0).num_elements()),
        b_elements_(use.operand(1).num_elements()),
        c_elements_(use.result(0).num_elements()),
        matmuls_(std::move(plan.matmuls)),
        gemm_(std::move(gemm)) {
    converts_ = dtype_ != computed;
    if (converts_) {
      a_at_ = layout_.Add(a_elements_ * 4);
      b_at_ = layout_.Add(b_elements_ * 4);
      c_at_ = layout_.Add(c_elements_ * 4);
    }
    gemm_at_ = layout_.Add(gemm_->workspace_bytes());
  }

  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    if (!converts_) {
      return Matmuls(args.operands[0], args.operands[1], args.results[0],
                     args.workspace);
    }
    auto* a = WorkspaceAt<float>(args.workspace, a_at_);
    auto* b = WorkspaceAt<float>(args.workspace, b_at_);
    auto* c = WorkspaceAt<float>(args.workspace, c_at_);
    Load(dtype_, args.operands[0], a_elements_, a);
    Load(dtype_, args.operands[1], b_elements_, b);
    ASYRA_RETURN_IF_ERROR(Matmuls(a, b, c, args.workspace));
    Store(result_, c, c_elements_, args.results[0]);
    return absl::OkStatus();
  }

 private:
  absl::Status Matmuls(const void* a, const void* b, void* c, void* workspace) {
    int64_t size = SizeOf(computed_);
    for (const auto& [a_first, b_first, c_first] : matmuls_) {
      ASYRA_RETURN_IF_ERROR(
          gemm_->Run(static_cast<const std::byte*>(a) + a_first * size,
                     static_cast<const std::byte*>(b) + b_first * size,
                     static_cast<std::byte*>(c) + c_first * size,
                     WorkspaceAt<void>(workspace, gemm_at_)));
    }
    return absl::OkStatus();
  }

  DType dtype_, result_, computed_;
  int64_t a_elements_, b_elements_, c_elements_;
  std::vector<std::array<int64_t, 3>> matmuls_;
  std::unique_ptr<Gemm> gemm_;
  bool converts_;
  WorkspaceLayout layout_;
  int64_t a_at_ = 0, b_at_ = 0, c_at_ = 0, gemm_at_ = 0;
};

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  MatmulPlan plan = PlanMatmul(use);
  GemmShape shape = ShapeOf(plan, use.operand(0).dtype);
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, Gemm::Create(shape));
  return std::make_unique<MatmulKernel>(use, shape.dtype, std::move(plan),
                                        std::move(gemm));
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CpuKernelDef> MatmulKernels() {
  return {{"matmul", Always, Prepare},
          {"grouped_matmul", Always, Prepare},
          {"matmul_wgrad", Always, Prepare}};
}

}  // namespace asyra::cpu
