// Packed rows of experts (ir/ops/packed_rows.cc): the Hopper kernel where it
// takes the use.
#include "executor/cuda/kernels/packed_rows.h"

#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/device/element_of.h"
#include "executor/cuda/device/sm_partition.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "executor/cuda/packed/packed_matmul.h"

namespace asyra::cuda {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

int64_t LastOf(const Type& type) { return type.dims.back().size; }

// Bytes of a row of a value.
int64_t RowBytes(const Type& type) { return LastOf(type) * SizeOf(type.dtype); }

class SortKernel : public CudaKernel {
 public:
  explicit SortKernel(const KernelUse& use)
      : routing_{ElementOf(use.operand(0).dtype), use.operand(0).num_elements(),
                 LastOf(use.operand(0)),
                 use.attrs().Int("group_size") * LastOf(use.operand(0)),
                 use.attrs().Int("num_experts")} {}
  int64_t workspace_bytes() const override { return PackedSortBytes(routing_); }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(PackedSort(routing_, args.operands[0], args.workspace,
                          static_cast<int32_t*>(args.results[0]),
                          static_cast<int32_t*>(args.results[1]),
                          static_cast<int32_t*>(args.results[2]), stream));
    return absl::OkStatus();
  }

 private:
  PackedRouting routing_;
};

// packed_dispatch, packed_collect, packed_combine and packed_dot.
class MoveKernel : public CudaKernel {
 public:
  explicit MoveKernel(const KernelUse& use)
      : dispatches_(use.def().name == "packed_dispatch"),
        multiplies_(use.def().name == "packed_dot"),
        element_(ElementOf(use.operand(0).dtype)),
        hidden_(LastOf(use.operand(0))),
        row_bytes_(RowBytes(use.operand(0))) {
    const Type& indices = use.operand(1);
    const Type& x = use.operand(0);
    routing_.index = ElementOf(indices.dtype);
    routing_.choices = indices.num_elements();
    routing_.k =
        dispatches_ ? LastOf(indices) / x.size(x.rank() - 2) : LastOf(indices);
    routing_.group_rows = use.attrs().Int("group_size") * routing_.k;
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    const void *x = args.operands[0], *indices = args.operands[1];
    void* to = args.results[0];
    if (args.operands.size() < 3) {
      auto* move = dispatches_ ? PackedDispatch : PackedCollect;
      ASYRA_CUDA(move(routing_, indices, x, row_bytes_, to, stream));
      return absl::OkStatus();
    }
    auto* compute = dispatches_   ? PackedWeighedDispatch
                    : multiplies_ ? PackedDot
                                  : PackedCombine;
    ASYRA_CUDA(compute(routing_, indices, element_, x, args.operands[2],
                       hidden_, to, stream));
    return absl::OkStatus();
  }

 private:
  bool dispatches_, multiplies_;
  Element element_;
  int64_t hidden_, row_bytes_;
  PackedRouting routing_;
};

// Rows [..., rows, columns] of operand or result type `rows`.
PackedProblem ProblemOf(const KernelUse& use, const Type& rows, int ends) {
  const Type& type = use.operand(ends);
  return {.element = ElementOf(rows.dtype),
          .index = ElementOf(type.dtype),
          .rows = rows.num_elements() / LastOf(rows),
          .groups = type.num_elements() / LastOf(type),
          .groups_of_lead = type.size(type.rank() - 2),
          .experts = LastOf(type),
          .n = LastOf(use.result(0))};
}

PackedProblem ProblemOf(const KernelUse& use) {
  PackedProblem problem = ProblemOf(use, use.operand(0), 2);
  problem.wgrad = use.def().name == "packed_wgrad";
  if (problem.wgrad) {
    problem.m = LastOf(use.operand(0));
  } else {
    problem.k = LastOf(use.operand(0));
    problem.transpose_b = use.attrs().Bool("transpose_b");
    problem.residual = use.num_operands() > 3;
  }
  return problem;
}

class PlainKernel : public CudaKernel {
 public:
  explicit PlainKernel(const PackedProblem& problem) : problem_(problem) {}

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    const void *x = args.operands[0], *other = args.operands[1];
    const void* ends = args.operands[2];
    void* to = args.results[0];
    if (problem_.wgrad) {
      ASYRA_CUDA(PackedWgrad(problem_, x, other, ends, to, stream));
      return absl::OkStatus();
    }
    const void* residual = problem_.residual ? args.operands[3] : nullptr;
    ASYRA_CUDA(PackedMatmul(problem_, x, other, ends, residual, to, stream));
    return absl::OkStatus();
  }

 private:
  PackedProblem problem_;
};

Prepared PrepareMatmul(const KernelUse& use) {
  PackedProblem problem = ProblemOf(use);
  ASYRA_ASSIGN_OR_RETURN(int sms, SmsWithin(use.sm_margin()));
  auto kernel = PrepareHopperPacked(problem, sms);
  if (!absl::IsUnimplemented(kernel.status())) return kernel;
  return std::make_unique<PlainKernel>(problem);
}

class SumKernel : public CudaKernel {
 public:
  explicit SumKernel(const KernelUse& use)
      : problem_(ProblemOf(use, use.operand(0), 1)) {}

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(PackedSum(problem_, args.operands[0], args.operands[1],
                         args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  PackedProblem problem_;
};

class ExpandKernel : public CudaKernel {
 public:
  explicit ExpandKernel(const KernelUse& use)
      : problem_(ProblemOf(use, use.result(0), 1)),
        row_bytes_(RowBytes(use.result(0))) {}

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(PackedExpand(problem_, args.operands[0], args.operands[1],
                            row_bytes_, args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  PackedProblem problem_;
  int64_t row_bytes_;
};

template <typename K>
Prepared Prepare(const KernelUse& use) {
  return std::make_unique<K>(use);
}

// Something to move or to multiply.
bool HasElements(const KernelUse& use) {
  for (int i = 0; i < use.num_operands(); ++i) {
    if (use.operand(i).num_elements() == 0) return false;
  }
  return use.result(0).num_elements() > 0;
}

bool SupportsSort(const KernelUse& use) {
  PackedRouting routing = {.choices = use.operand(0).num_elements(),
                           .group_rows = 1,
                           .experts = use.attrs().Int("num_experts")};
  return HasElements(use) && PackedSortBytes(routing) > 0;
}

}  // namespace

std::vector<CudaKernelDef> PackedRowsKernels() {
  return {{"moe_sort", SupportsSort, Prepare<SortKernel>},
          {"packed_dispatch", HasElements, Prepare<MoveKernel>},
          {"packed_collect", HasElements, Prepare<MoveKernel>},
          {"packed_combine", HasElements, Prepare<MoveKernel>},
          {"packed_dot", HasElements, Prepare<MoveKernel>},
          {"packed_matmul", HasElements, PrepareMatmul},
          {"packed_wgrad", HasElements, PrepareMatmul},
          {"packed_sum", HasElements, Prepare<SumKernel>},
          {"packed_expand", HasElements, Prepare<ExpandKernel>}};
}

}  // namespace asyra::cuda
