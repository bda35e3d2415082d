// Matmuls (ir/ops/matmul.cc), also with an epilogue (ir/gpu/epilogue.h):
// batches at a constant stride are one call of cuBLASLt.
#include <optional>

#include "executor/cuda/device/sm_partition.h"
#include "executor/cuda/gemm/gemm.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "executor/matmul_plan.h"

namespace asyra::cuda {
namespace {

// A batch of matmuls with constant strides in elements.
struct Run {
  std::array<int64_t, 3> first, step;
  int64_t count;
};

std::array<int64_t, 3> Difference(const std::array<int64_t, 3>& a,
                                  const std::array<int64_t, 3>& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

std::vector<Run> RunsOf(const MatmulPlan& plan) {
  std::vector<Run> runs;
  for (const auto& at : plan.matmuls) {
    if (!runs.empty()) {
      Run& run = runs.back();
      std::array<int64_t, 3> next = run.first;
      for (int i = 0; i < 3; ++i) next[i] += run.count * run.step[i];
      if (run.count == 1) {
        run.step = Difference(at, run.first);
        next = at;
      }
      if (next == at) {
        ++run.count;
        continue;
      }
    }
    runs.push_back({at, {}, 1});
  }
  return runs;
}

// Numbers of the kernel's operands that a matmul uses; -1: none.
struct MatmulOperands {
  int a = 0, b = 1, residual = -1, bias = -1;
};

class MatmulKernel : public CudaKernel {
 public:
  absl::Status Prepare(const KernelUse& matmul, const MatmulOperands& operands,
                       Epilogue::Activation activation) {
    MatmulPlan plan = PlanMatmul(matmul);
    DType dtype = matmul.operand(0).dtype;
    int sms = 0;
    if (matmul.sm_margin() > 0) {
      ASYRA_ASSIGN_OR_RETURN(sms, SmsWithin(matmul.sm_margin()));
    }
    operands_ = operands;
    size_ = SizeOf(dtype);
    result_size_ = SizeOf(matmul.result(0).dtype);
    for (const Run& run : RunsOf(plan)) {
      GemmShape shape{dtype,
                      plan.transpose_a,
                      plan.transpose_b,
                      plan.m,
                      plan.n,
                      plan.k,
                      run.count,
                      run.step[0],
                      run.step[1],
                      run.step[2],
                      {operands.residual >= 0, operands.bias >= 0, activation},
                      sms,
                      matmul.result(0).dtype != dtype,
                      matmul.row_stride(0),
                      matmul.row_stride(1)};
      ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, Gemm::Create(shape));
      workspace_ = std::max(workspace_, gemm->workspace_bytes());
      calls_.push_back({run.first, std::move(gemm)});
    }
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override { return workspace_; }
  void AddTuningResults(TuningResults* results) const override {
    for (const Call& call : calls_) call.gemm->AddTuningResult(results);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    auto at = [this](void* data, int64_t element) {
      return static_cast<std::byte*>(data) + element * size_;
    };
    // Returns an address in the result or a residual, which may be one buffer.
    auto of_result = [this](void* data, int64_t element) {
      return static_cast<std::byte*>(data) + element * result_size_;
    };
    for (const Call& call : calls_) {
      EpilogueData data;
      if (operands_.residual >= 0) {
        data.residual =
            of_result(args.operands[operands_.residual], call.first[2]);
      }
      if (operands_.bias >= 0) data.bias = args.operands[operands_.bias];
      ASYRA_RETURN_IF_ERROR(
          call.gemm->Enqueue(at(args.operands[operands_.a], call.first[0]),
                             at(args.operands[operands_.b], call.first[1]),
                             of_result(args.results[0], call.first[2]), data,
                             args.workspace, stream));
    }
    return absl::OkStatus();
  }

 private:
  struct Call {
    std::array<int64_t, 3> first;
    std::unique_ptr<Gemm> gemm;
  };
  MatmulOperands operands_;
  int64_t size_ = 0, result_size_ = 0;  // bytes of an element
  int64_t workspace_ = 0;
  std::vector<Call> calls_;
};

// A contraction of size 0 gives zeros, which cuBLASLt does not compute.
bool Supports(const KernelUse& use) {
  return IsFloat(use.operand(0).dtype) && use.operand(0).num_elements() > 0 &&
         use.operand(1).num_elements() > 0;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  auto kernel = std::make_unique<MatmulKernel>();
  ASYRA_RETURN_IF_ERROR(kernel->Prepare(use, {}, Epilogue::kNone));
  return kernel;
}

// The matmul of a fusion that is a matmul with an epilogue.
struct WithEpilogue {
  KernelUse matmul;
  MatmulOperands operands;
  Epilogue epilogue;
};

std::optional<WithEpilogue> ReadFusion(const KernelUse& use) {
  const Body* body = BodyOf(use.attrs());
  if (body == nullptr) return std::nullopt;
  auto epilogue = EpilogueOf(*body, use.global_operands());
  auto types = BodyTypes(*body, use.global_operands(), use.mesh());
  if (!epilogue.has_value() || !types.ok()) return std::nullopt;
  return WithEpilogue{MatmulOfFusion(use, *types),
                      {body->ops[0].operands[0], body->ops[0].operands[1],
                       epilogue->residual, epilogue->bias},
                      *epilogue};
}

bool SupportsFusion(const KernelUse& use) {
  std::optional<WithEpilogue> fusion = ReadFusion(use);
  return fusion.has_value() && Supports(fusion->matmul);
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareFusion(const KernelUse& use) {
  std::optional<WithEpilogue> fusion = ReadFusion(use);
  auto kernel = std::make_unique<MatmulKernel>();
  ASYRA_RETURN_IF_ERROR(kernel->Prepare(fusion->matmul, fusion->operands,
                                        fusion->epilogue.activation));
  return kernel;
}

}  // namespace

std::vector<CudaKernelDef> MatmulKernels() {
  return {{"matmul", Supports, Prepare},
          {"grouped_matmul", Supports, Prepare},
          {"matmul_wgrad", Supports, Prepare},
          {"fusion", SupportsFusion, PrepareFusion}};
}

}  // namespace asyra::cuda
