// Matmuls (ir/ops/matmul.cc), also added to a value. Half precision is computed
// in single, converted in the workspace.
#include <cstring>

#include "executor/cpu/convert.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "executor/matmul_plan.h"
#include "ir/accumulation.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

GemmShape ShapeOf(const MatmulPlan& plan, DType dtype) {
  GemmShape gemm;
  gemm.dtype = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  gemm.m = plan.m;
  gemm.n = plan.n;
  gemm.k = plan.k;
  gemm.a_row = plan.transpose_a ? 1 : plan.a_stride;
  gemm.a_column = plan.transpose_a ? plan.a_stride : 1;
  gemm.b_row = plan.transpose_b ? 1 : plan.b_stride;
  gemm.b_column = plan.transpose_b ? plan.b_stride : 1;
  gemm.c_row = gemm.n;
  return gemm;
}

// Numbers of the kernel's operands; -1: the matmul is not added to anything.
struct MatmulOperands {
  int a = 0, b = 1, onto = -1;
};

class MatmulKernel : public CpuKernel {
 public:
  MatmulKernel(const KernelUse& matmul, const MatmulOperands& operands,
               DType computed, MatmulPlan plan, std::unique_ptr<Gemm> gemm)
      : operands_(operands),
        dtype_(matmul.operand(0).dtype),
        result_(matmul.result(0).dtype),
        computed_(computed),
        a_(RowsOf(matmul, 0)),
        b_(RowsOf(matmul, 1)),
        c_elements_(matmul.result(0).num_elements()),
        matmuls_(std::move(plan.matmuls)),
        gemm_(std::move(gemm)) {
    if (dtype_ != computed) {
      a_at_ = layout_.Add(a_.count * a_.length * 4);
      b_at_ = layout_.Add(b_.count * b_.length * 4);
    }
    if (result_ != computed) c_at_ = layout_.Add(c_elements_ * 4);
    gemm_at_ = layout_.Add(gemm_->workspace_bytes());
  }

  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    const void* a = args.operands[operands_.a];
    const void* b = args.operands[operands_.b];
    if (dtype_ != computed_) {
      a = Loaded(a, a_, args.workspace, a_at_);
      b = Loaded(b, b_, args.workspace, b_at_);
    }
    const void* onto =
        operands_.onto < 0 ? nullptr : args.operands[operands_.onto];
    if (result_ == computed_) {
      void* c = args.results[0];
      if (onto != nullptr && onto != c) {
        std::memcpy(c, onto, c_elements_ * SizeOf(computed_));
      }
      return Matmuls(a, b, c, args.workspace);
    }
    auto* c = WorkspaceAt<float>(args.workspace, c_at_);
    if (onto != nullptr) Load(result_, onto, c_elements_, c);
    ASYRA_RETURN_IF_ERROR(Matmuls(a, b, c, args.workspace));
    Store(result_, c, c_elements_, args.results[0]);
    return absl::OkStatus();
  }

 private:
  // Rows of an operand; `stride` elements from one to the next.
  struct Rows {
    int64_t count, length, stride;
  };

  static Rows RowsOf(const KernelUse& matmul, int operand) {
    const Type& type = matmul.operand(operand);
    int64_t stride = matmul.row_stride(operand);
    if (stride == 0) return {1, type.num_elements(), 0};
    int64_t length = type.size(type.rank() - 1);
    return {type.num_elements() / length, length, stride};
  }

  // Dense, in single precision. What is between the rows is not read: others
  // may write it at this time.
  const void* Loaded(const void* from, const Rows& rows, void* workspace,
                     int64_t at) const {
    auto* to = WorkspaceAt<float>(workspace, at);
    for (int64_t i = 0; i < rows.count; ++i) {
      Load(dtype_,
           static_cast<const std::byte*>(from) +
               i * rows.stride * SizeOf(dtype_),
           rows.length, to + i * rows.length);
    }
    return to;
  }

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

  MatmulOperands operands_;
  DType dtype_, result_, computed_;
  Rows a_, b_;
  int64_t c_elements_;
  std::vector<std::array<int64_t, 3>> matmuls_;
  std::unique_ptr<Gemm> gemm_;
  WorkspaceLayout layout_;
  int64_t a_at_ = 0, b_at_ = 0, c_at_ = 0, gemm_at_ = 0;
};

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmul(
    const KernelUse& matmul, const MatmulOperands& operands) {
  DType dtype = matmul.operand(0).dtype;
  bool converts = dtype != DType::kF32 && dtype != DType::kF64;
  // Converted operands are dense.
  MatmulPlan plan = PlanMatmul(converts ? matmul.WithRowStrides({}) : matmul);
  GemmShape shape = ShapeOf(plan, dtype);
  shape.accumulates = operands.onto >= 0;
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, Gemm::Create(shape));
  return std::make_unique<MatmulKernel>(matmul, operands, shape.dtype,
                                        std::move(plan), std::move(gemm));
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  return PrepareMatmul(use, {});
}

bool Always(const KernelUse&) { return true; }

// Fusions that are a matmul added to a value (ir/accumulation.h).
int AccumulatesOn(const KernelUse& use) {
  auto types =
      BodyTypes(*BodyOf(use.attrs()), use.global_operands(), use.mesh());
  return types.ok() ? asyra::AccumulatesOn(*BodyOf(use.attrs()), *types) : -1;
}

// Half precision is rounded after the matmul and after the sum: op by op.
bool Accumulates(const KernelUse& use) {
  DType result = use.result(0).dtype;
  return (result == DType::kF32 || result == DType::kF64) &&
         AccumulatesOn(use) >= 0;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareSum(const KernelUse& use) {
  const Body& body = *BodyOf(use.attrs());
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> types,
                         BodyTypes(body, use.global_operands(), use.mesh()));
  const auto& factors = body.ops[0].operands;
  return PrepareMatmul(MatmulOfFusion(use, types),
                       {factors[0], factors[1], AccumulatesOn(use)});
}

}  // namespace

std::vector<CpuKernelDef> MatmulKernels() {
  return {{"matmul", Always, Prepare},
          {"grouped_matmul", Always, Prepare},
          {"matmul_wgrad", Always, Prepare},
          {"fusion", Accumulates, PrepareSum}};
}

}  // namespace asyra::cpu
