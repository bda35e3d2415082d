// Gradients of attention (ir/ops/attention.cc), head by head: weights from the
// rows' log sums, then the matmuls that the result asks for. With weights p and
// dp = dy v^T, the scores' gradient is ds = p (dp - sum(p dp)), where
// sum(p dp) = dy . y.
#include <algorithm>
#include <array>
#include <numeric>

#include "executor/cpu/convert.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernels/attention_rows.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

using ops::kFirstGradExtra, ops::kGradDy, ops::kGradLogSums, ops::kGradY;

enum class Of : uint8_t { kMatrices, kMask, kSinks };

Of OfUse(const KernelUse& use) {
  const auto& of = use.attrs().Get<std::string>("of");
  return of == "qkv" ? Of::kMatrices : of == "mask" ? Of::kMask : Of::kSinks;
}

class AttentionGradKernel : public CpuKernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
    auto kernel =
        std::unique_ptr<AttentionGradKernel>(new AttentionGradKernel(use));
    ASYRA_RETURN_IF_ERROR(kernel->MakeGemms());
    kernel->LayOut();
    return kernel;
  }

  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    const ops::AttentionSizes& z = rows_.sizes();
    const float* q = rows_.Operand(args, 0);
    const float* k = rows_.Operand(args, 1);
    const float* v = rows_.Operand(args, 2);
    const float* dy = rows_.Operand(args, kGradDy);
    const float* y = rows_.Operand(args, kGradY);
    const float* log_sum = rows_.Operand(args, kGradLogSums);  // [b, h, s]
    AttentionRows::Extras extras = rows_.ExtrasOf(args);
    std::array<float*, 3> out{};
    for (size_t i = 0; i < results_.size(); ++i) {
      out[i] = WorkspaceAt<float>(args.workspace, results_[i].at);
      std::fill_n(out[i], results_[i].elements, 0.0f);
    }
    float* p = WorkspaceAt<float>(args.workspace, weights_at_);
    float* dp = WorkspaceAt<float>(args.workspace, gradients_at_);
    void* gemm = WorkspaceAt<void>(args.workspace, gemm_at_);
    for (int64_t b = 0; b < z.b; ++b) {
      for (int64_t h = 0; h < z.h; ++h) {
        ASYRA_RETURN_IF_ERROR(scores_->Run(
            q + rows_.OfQuery(b, h, z.d), k + rows_.OfKey(b, h, z.d), p, gemm));
        ASYRA_RETURN_IF_ERROR(weights_->Run(dy + rows_.OfQuery(b, h, z.e),
                                            v + rows_.OfKey(b, h, z.e), dp,
                                            gemm));
        for (int64_t s = 0; s < z.s; ++s) {
          int64_t at = rows_.OfQuery(b, h, z.e) + s * z.h * z.e;
          double mean = std::inner_product(y + at, y + at + z.e, dy + at, 0.0);
          RowGradient({b, h, s}, *log_sum++, static_cast<float>(mean), extras,
                      args, p + s * z.t, dp + s * z.t, out[0]);
        }
        if (of_ != Of::kMatrices) continue;
        ASYRA_RETURN_IF_ERROR(to_q_->Run(dp, k + rows_.OfKey(b, h, z.d),
                                         out[0] + rows_.OfQuery(b, h, z.d),
                                         gemm));
        ASYRA_RETURN_IF_ERROR(AddToKeys(to_k_.get(), z.d, dp,
                                        q + rows_.OfQuery(b, h, z.d), args,
                                        out[1] + rows_.OfKey(b, h, z.d)));
        ASYRA_RETURN_IF_ERROR(AddToKeys(to_v_.get(), z.e, p,
                                        dy + rows_.OfQuery(b, h, z.e), args,
                                        out[2] + rows_.OfKey(b, h, z.e)));
      }
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      Store(results_[i].dtype, out[i], results_[i].elements, args.results[i]);
    }
    return absl::OkStatus();
  }

 private:
  explicit AttentionGradKernel(const KernelUse& use)
      : of_(OfUse(use)), rows_(use, kFirstGradExtra) {
    for (int i = 0; i < use.num_results(); ++i) {
      results_.push_back(
          {use.result(i).dtype, use.result(i).num_elements(), 0});
    }
  }

  // Matmuls of [s, t] and what has rows `row` apart.
  static GemmShape ByRows(const ops::AttentionSizes& z, int64_t size,
                          int64_t row, int64_t c_row) {
    return {.m = z.s,
            .n = size,
            .k = z.t,
            .a_row = z.t,
            .b_row = row,
            .c_row = c_row};
  }
  // Returns the matmul of [s, t], transposed, and rows of queries: [t, size],
  // close together.
  static GemmShape Transposed(const ops::AttentionSizes& z, int64_t size) {
    return {.m = z.t,
            .n = size,
            .k = z.s,
            .a_row = 1,
            .a_column = z.t,
            .b_row = z.h * size,
            .c_row = size};
  }
  // Returns the matmul of rows of queries and of keys: [s, t].
  static GemmShape Scores(const ops::AttentionSizes& z, int64_t size) {
    return {.m = z.s,
            .n = z.t,
            .k = size,
            .a_row = z.h * size,
            .b_row = 1,
            .b_column = z.kv_heads * size,
            .c_row = z.t};
  }

  absl::Status MakeGemms() {
    const ops::AttentionSizes& z = rows_.sizes();
    ASYRA_ASSIGN_OR_RETURN(scores_, Gemm::Create(Scores(z, z.d)));
    ASYRA_ASSIGN_OR_RETURN(weights_, Gemm::Create(Scores(z, z.e)));
    if (of_ != Of::kMatrices) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(
        to_q_, Gemm::Create(ByRows(z, z.d, z.kv_heads * z.d, z.h * z.d)));
    ASYRA_ASSIGN_OR_RETURN(to_k_, Gemm::Create(Transposed(z, z.d)));
    ASYRA_ASSIGN_OR_RETURN(to_v_, Gemm::Create(Transposed(z, z.e)));
    return absl::OkStatus();
  }

  void LayOut() {
    const ops::AttentionSizes& z = rows_.sizes();
    weights_at_ = layout_.Add(z.s * z.t * 4);
    gradients_at_ = layout_.Add(z.s * z.t * 4);
    slopes_at_ = layout_.Add(z.t * 4);
    part_at_ = layout_.Add(z.t * std::max(z.d, z.e) * 4);
    int64_t most = 0;
    for (const auto* gemm : {&scores_, &weights_, &to_q_, &to_k_, &to_v_}) {
      if (*gemm != nullptr) most = std::max(most, (*gemm)->workspace_bytes());
    }
    gemm_at_ = layout_.Add(most);
    rows_.LayOut(&layout_);
    for (ResultPlan& result : results_) {
      result.at = layout_.Add(result.elements * 4);
    }
  }

  // p, the dot products of queries and keys, becomes weights, and dp their
  // gradient. Adds the gradients of a mask and a sink.
  void RowGradient(const AttentionRows::Row& row, float log_sum, float mean,
                   const AttentionRows::Extras& extras, const KernelArgs& args,
                   float* p, float* dp, float* out) const {
    float* slopes = WorkspaceAt<float>(args.workspace, slopes_at_);
    float sink = rows_.WeightsFrom(log_sum, row, extras, p, slopes);
    int64_t keys = rows_.sizes().t;
    if (of_ == Of::kSinks) out[row.h] -= sink * mean;
    for (int64_t t = 0; t < keys; ++t) {
      float ds = p[t] == 0 ? 0 : p[t] * (dp[t] - mean);
      if (of_ == Of::kMask && p[t] != 0) {
        out[rows_.MaskElement(row) + t * rows_.mask_step()] += ds;
      }
      dp[t] = ds * slopes[t];
    }
  }

  // Query heads of a group share their keys: `to` gets the sum.
  absl::Status AddToKeys(Gemm* gemm, int64_t size, const float* scores,
                         const float* queries, const KernelArgs& args,
                         float* to) const {
    float* part = WorkspaceAt<float>(args.workspace, part_at_);
    ASYRA_RETURN_IF_ERROR(gemm->Run(
        scores, queries, part, WorkspaceAt<void>(args.workspace, gemm_at_)));
    int64_t row = rows_.sizes().kv_heads * size;
    for (int64_t t = 0; t < rows_.sizes().t; ++t) {
      for (int64_t i = 0; i < size; ++i) to[t * row + i] += part[t * size + i];
    }
    return absl::OkStatus();
  }

  struct ResultPlan {
    DType dtype;
    int64_t elements;
    int64_t at;  // in single precision, in the workspace
  };
  Of of_;
  AttentionRows rows_;
  std::vector<ResultPlan> results_;
  std::unique_ptr<Gemm> scores_, weights_, to_q_, to_k_, to_v_;
  WorkspaceLayout layout_;
  int64_t weights_at_ = 0, gradients_at_ = 0, slopes_at_ = 0, part_at_ = 0;
  int64_t gemm_at_ = 0;
};

}  // namespace

std::vector<CpuKernelDef> AttentionGradKernels() {
  return {{"attention_grad", SupportsAttention, AttentionGradKernel::Prepare}};
}

}  // namespace asyra::cpu
