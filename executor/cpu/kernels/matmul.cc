// Matrix products (ir/ops/matmul.cc). Half precision is computed in single,
// converted in the workspace.
#include "executor/cpu/convert.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/strided.h"
#include "executor/cpu/workspace.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

bool Flag(const KernelUse& use, std::string_view name) {
  const AttrValue* value = use.attrs().Find(name);
  return value != nullptr && std::get<bool>(*value);
}

// The matrices of a use: which of them meet, and how they lie in memory.
struct MatmulPlan {
  GemmShape gemm;
  int64_t a_elements = 0, b_elements = 0, c_elements = 0;
  // First elements of the matrices of each product.
  std::vector<std::array<int64_t, 3>> products;
};

Shape BatchOf(const Type& type) {
  Shape shape = type.shape();
  shape.resize(shape.size() - 2);
  return shape;
}

MatmulPlan PlanMatmul(const KernelUse& use) {
  const Type &a = use.operand(0), &b = use.operand(1), &c = use.result(0);
  bool ta = Flag(use, "transpose_a"), tb = Flag(use, "transpose_b");
  MatmulPlan plan;
  GemmShape& gemm = plan.gemm;
  gemm.dtype = a.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  gemm.m = c.size(c.rank() - 2);
  gemm.n = c.size(c.rank() - 1);
  gemm.k = a.size(a.rank() - (ta ? 2 : 1));
  gemm.a_row = ta ? 1 : gemm.k;
  gemm.a_column = ta ? gemm.m : 1;
  gemm.b_row = tb ? 1 : gemm.n;
  gemm.b_column = tb ? gemm.k : 1;
  gemm.c_row = gemm.n;
  plan.a_elements = a.num_elements();
  plan.b_elements = b.num_elements();
  plan.c_elements = c.num_elements();
  Shape batch = BatchOf(c);
  bool one_b = NumElements(BatchOf(b)) == 1;
  if (one_b && !ta && BatchOf(a) == batch) {
    // All rows of all batches meet one matrix: a single product.
    gemm.m *= NumElements(batch);
    plan.products = {{0, 0, 0}};
    return plan;
  }
  StridedLoop<3> loop(batch, {BroadcastStrides(BatchOf(a), batch),
                              BroadcastStrides(BatchOf(b), batch),
                              BroadcastStrides(batch, batch)});
  loop.ForEachRun([&](const std::array<int64_t, 3>& at) {
    for (int64_t i = 0; i < loop.run(); ++i) {
      plan.products.push_back({(at[0] + i * loop.step(0)) * gemm.m * gemm.k,
                               (at[1] + i * loop.step(1)) * gemm.k * gemm.n,
                               (at[2] + i * loop.step(2)) * gemm.m * gemm.n});
    }
  });
  return plan;
}

class MatmulKernel : public CpuKernel {
 public:
  MatmulKernel(DType dtype, MatmulPlan plan, std::unique_ptr<Gemm> gemm)
      : dtype_(dtype), plan_(std::move(plan)), gemm_(std::move(gemm)) {
    converts_ = dtype != plan_.gemm.dtype;
    if (converts_) {
      a_at_ = layout_.Add(plan_.a_elements * 4);
      b_at_ = layout_.Add(plan_.b_elements * 4);
      c_at_ = layout_.Add(plan_.c_elements * 4);
    }
    gemm_at_ = layout_.Add(gemm_->workspace_bytes());
  }

  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    if (!converts_) {
      return Products(args.operands[0], args.operands[1], args.results[0],
                      args.workspace);
    }
    auto* a = WorkspaceAt<float>(args.workspace, a_at_);
    auto* b = WorkspaceAt<float>(args.workspace, b_at_);
    auto* c = WorkspaceAt<float>(args.workspace, c_at_);
    Load(dtype_, args.operands[0], plan_.a_elements, a);
    Load(dtype_, args.operands[1], plan_.b_elements, b);
    ASYRA_RETURN_IF_ERROR(Products(a, b, c, args.workspace));
    Store(dtype_, c, plan_.c_elements, args.results[0]);
    return absl::OkStatus();
  }

 private:
  absl::Status Products(const void* a, const void* b, void* c,
                        void* workspace) {
    int64_t size = SizeOf(plan_.gemm.dtype);
    for (const auto& [a_first, b_first, c_first] : plan_.products) {
      ASYRA_RETURN_IF_ERROR(
          gemm_->Run(static_cast<const std::byte*>(a) + a_first * size,
                     static_cast<const std::byte*>(b) + b_first * size,
                     static_cast<std::byte*>(c) + c_first * size,
                     WorkspaceAt<void>(workspace, gemm_at_)));
    }
    return absl::OkStatus();
  }

  DType dtype_;
  MatmulPlan plan_;
  std::unique_ptr<Gemm> gemm_;
  bool converts_;
  WorkspaceLayout layout_;
  int64_t a_at_ = 0, b_at_ = 0, c_at_ = 0, gemm_at_ = 0;
};

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  MatmulPlan plan = PlanMatmul(use);
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, Gemm::Create(plan.gemm));
  return std::make_unique<MatmulKernel>(use.operand(0).dtype, std::move(plan),
                                        std::move(gemm));
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CpuKernelDef> MatmulKernels() {
  return {{"matmul", Always, Prepare}, {"grouped_matmul", Always, Prepare}};
}

}  // namespace asyra::cpu
