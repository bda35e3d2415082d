// Attention (ir/ops/attention.h) by two matmuls for each head: the
// scores of all its rows, then the values under their weights. Half precision
// is computed in single, f64 is left to the reference.
#include <algorithm>

#include "executor/cpu/convert.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernels/attention_rows.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

using ops::kFirstExtra;

class AttentionKernel : public CpuKernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
    auto kernel = std::unique_ptr<AttentionKernel>(new AttentionKernel(use));
    const ops::AttentionSizes& z = kernel->rows_.sizes();
    ASYRA_ASSIGN_OR_RETURN(kernel->scores_gemm_,
                           Gemm::Create({.m = z.s,
                                         .n = z.t,
                                         .k = z.d,
                                         .a_row = z.h * z.d,
                                         .b_row = 1,
                                         .b_column = z.kv_heads * z.d,
                                         .c_row = z.t}));
    ASYRA_ASSIGN_OR_RETURN(kernel->values_gemm_,
                           Gemm::Create({.m = z.s,
                                         .n = z.e,
                                         .k = z.t,
                                         .a_row = z.t,
                                         .b_row = z.kv_heads * z.e,
                                         .c_row = z.h * z.e}));
    kernel->LayOut();
    return kernel;
  }

  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    const ops::AttentionSizes& z = rows_.sizes();
    const float* q = rows_.Operand(args, 0);
    const float* k = rows_.Operand(args, 1);
    const float* v = rows_.Operand(args, 2);
    AttentionRows::Extras extras = rows_.ExtrasOf(args);
    float* out = converts_ ? WorkspaceAt<float>(args.workspace, out_at_)
                           : static_cast<float*>(args.results[0]);
    auto* log_sums =  // [b, h, s]
        args.results.size() > 1 ? static_cast<float*>(args.results[1])
                                : nullptr;
    float* scores = WorkspaceAt<float>(args.workspace, scores_at_);
    void* gemm = WorkspaceAt<void>(args.workspace, gemm_at_);
    for (int64_t b = 0; b < z.b; ++b) {
      for (int64_t h = 0; h < z.h; ++h) {
        ASYRA_RETURN_IF_ERROR(scores_gemm_->Run(q + rows_.OfQuery(b, h, z.d),
                                                k + rows_.OfKey(b, h, z.d),
                                                scores, gemm));
        for (int64_t s = 0; s < z.s; ++s) {
          float log_sum = rows_.Weights({b, h, s}, extras, scores + s * z.t);
          if (log_sums != nullptr) *log_sums++ = log_sum;
        }
        ASYRA_RETURN_IF_ERROR(
            values_gemm_->Run(scores, v + rows_.OfKey(b, h, z.e),
                              out + rows_.OfQuery(b, h, z.e), gemm));
      }
    }
    if (converts_) {
      Store(dtype_, out, z.b * z.s * z.h * z.e, args.results[0]);
    }
    return absl::OkStatus();
  }

 private:
  explicit AttentionKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype),
        converts_(dtype_ != DType::kF32),
        rows_(use, kFirstExtra) {}

  void LayOut() {
    const ops::AttentionSizes& z = rows_.sizes();
    scores_at_ = layout_.Add(z.s * z.t * 4);
    gemm_at_ = layout_.Add(std::max(scores_gemm_->workspace_bytes(),
                                    values_gemm_->workspace_bytes()));
    rows_.LayOut(&layout_);
    if (converts_) out_at_ = layout_.Add(z.b * z.s * z.h * z.e * 4);
  }

  DType dtype_;
  bool converts_;
  AttentionRows rows_;
  std::unique_ptr<Gemm> scores_gemm_, values_gemm_;
  WorkspaceLayout layout_;
  int64_t scores_at_ = 0, gemm_at_ = 0, out_at_ = 0;
};

}  // namespace

std::vector<CpuKernelDef> AttentionKernels() {
  return {{"attention", SupportsAttention, AttentionKernel::Prepare}};
}

}  // namespace asyra::cpu
