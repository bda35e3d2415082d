// Attention (ir/ops/attention.h) by two matrix products for each head: the
// scores of all its rows, then the values under their weights. Half precision
// is computed in single.
#include "ir/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "executor/cpu/convert.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/strided.h"
#include "executor/cpu/workspace.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

constexpr int kFirstExtra = 3;  // after q, k, v
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class AttentionKernel : public CpuKernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
    auto kernel = std::unique_ptr<AttentionKernel>(new AttentionKernel(use));
    const ops::AttentionSizes& z = kernel->sizes_;
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
    const ops::AttentionSizes& z = sizes_;
    const float* q = Operand(args, 0);
    const float* k = Operand(args, 1);
    const float* v = Operand(args, 2);
    const float* mask = extras_.mask >= 0 ? MaskOf(args) : nullptr;
    const float* sinks =
        extras_.sinks >= 0 ? Operand(args, extras_.sinks) : nullptr;
    float* out = converts_ ? WorkspaceAt<float>(args.workspace, out_at_)
                           : static_cast<float*>(args.results[0]);
    float* scores = WorkspaceAt<float>(args.workspace, scores_at_);
    void* gemm = WorkspaceAt<void>(args.workspace, gemm_at_);
    for (int64_t b = 0; b < z.b; ++b) {
      int64_t length = LengthOf(args, b);
      for (int64_t h = 0; h < z.h; ++h) {
        int64_t kv = h / (z.h / z.kv_heads);
        ASYRA_RETURN_IF_ERROR(scores_gemm_->Run(
            q + (b * z.s * z.h + h) * z.d,
            k + (b * z.t * z.kv_heads + kv) * z.d, scores, gemm));
        for (int64_t s = 0; s < z.s; ++s) {
          Row(b, h, s, length, mask, sinks, scores + s * z.t);
        }
        ASYRA_RETURN_IF_ERROR(
            values_gemm_->Run(scores, v + (b * z.t * z.kv_heads + kv) * z.e,
                              out + (b * z.s * z.h + h) * z.e, gemm));
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
        sizes_(absl::Span<const Type>(Locals(use))),
        extras_(use.global_operands(), kFirstExtra),
        window_(use.attrs().Int("window")),
        window_after_(
            use.attrs().Bool("causal") ? 1 : use.attrs().Int("window_after")),
        scale_(static_cast<float>(use.attrs().Float("scale"))),
        softcap_(static_cast<float>(use.attrs().Float("softcap"))),
        hidden_(static_cast<float>(use.attrs().Float("hidden"))),
        first_row_(use.attrs().Int("offset") +
                   use.Start(use.global_operands()[0], 1)),
        at_end_(use.attrs().Bool("at_end")),
        rows_in_all_(use.global_operands()[0].size(1)),
        converts_(dtype_ != DType::kF32) {
    for (int i = 0; i < use.num_operands(); ++i) {
      operands_.push_back(
          {use.operand(i).dtype, use.operand(i).num_elements(), -1});
    }
    if (extras_.mask < 0) return;
    Shape full = {sizes_.b, sizes_.h, sizes_.s, sizes_.t};
    mask_strides_ = BroadcastStrides(use.operand(extras_.mask).shape(), full);
  }

  static std::vector<Type> Locals(const KernelUse& use) {
    return {use.operand(0), use.operand(1), use.operand(2)};
  }

  void LayOut() {
    scores_at_ = layout_.Add(sizes_.s * sizes_.t * 4);
    gemm_at_ = layout_.Add(std::max(scores_gemm_->workspace_bytes(),
                                    values_gemm_->workspace_bytes()));
    for (size_t i = 0; i < operands_.size(); ++i) {
      OperandPlan& operand = operands_[i];
      bool is_lengths = static_cast<int>(i) == extras_.lengths;
      if (operand.dtype == DType::kF32 || is_lengths) continue;
      operand.at = layout_.Add(operand.elements * 4);
    }
    if (converts_) {
      out_at_ = layout_.Add(sizes_.b * sizes_.s * sizes_.h * sizes_.e * 4);
    }
  }

  // In single precision; in the workspace when it is not so already.
  const float* Operand(const KernelArgs& args, int i) const {
    const OperandPlan& operand = operands_[i];
    if (operand.at < 0) return static_cast<const float*>(args.operands[i]);
    auto* converted = WorkspaceAt<float>(args.workspace, operand.at);
    Load(operand.dtype, args.operands[i], operand.elements, converted);
    return converted;
  }

  // As what is added to scores.
  const float* MaskOf(const KernelArgs& args) const {
    const OperandPlan& operand = operands_[extras_.mask];
    const float* mask = Operand(args, extras_.mask);
    if (operand.dtype != DType::kBool) return mask;
    auto* added = WorkspaceAt<float>(args.workspace, operand.at);
    for (int64_t i = 0; i < operand.elements; ++i) {
      added[i] = added[i] != 0 ? 0 : -kInfinity;
    }
    return added;
  }

  int64_t LengthOf(const KernelArgs& args, int64_t b) const {
    if (extras_.lengths < 0) return sizes_.t;
    DType dtype = operands_[extras_.lengths].dtype;
    int64_t length = 0;
    Load(dtype,
         static_cast<const std::byte*>(args.operands[extras_.lengths]) +
             b * SizeOf(dtype),
         1, &length);
    return length;
  }

  // Products of a row of q with all keys become weights.
  void Row(int64_t b, int64_t h, int64_t s, int64_t length, const float* mask,
           const float* sinks, float* row) const {
    int64_t at = first_row_ + s + (at_end_ ? length - rows_in_all_ : 0);
    const float* added = mask == nullptr
                             ? nullptr
                             : mask + b * mask_strides_[0] +
                                   h * mask_strides_[1] + s * mask_strides_[2];
    float largest = -kInfinity;
    for (int64_t t = 0; t < sizes_.t; ++t) {
      bool sees = (window_after_ == 0 || t < at + window_after_) &&
                  (window_ == 0 || t > at - window_);
      if (t >= length) {
        row[t] = -kInfinity;
      } else if (!sees) {
        row[t] = hidden_;
      } else {
        row[t] *= scale_;
        if (softcap_ > 0) row[t] = softcap_ * std::tanh(row[t] / softcap_);
        if (added != nullptr) row[t] += added[t * mask_strides_[3]];
      }
      largest = std::max(largest, row[t]);
    }
    if (largest == -kInfinity) {
      std::fill_n(row, sizes_.t, 0.0f);  // it sees no key
      return;
    }
    double sum = 0;
    if (sinks != nullptr) {
      largest = std::max(largest, sinks[h]);
      sum = std::exp(sinks[h] - largest);
    }
    for (int64_t t = 0; t < sizes_.t; ++t) {
      row[t] = std::exp(row[t] - largest);
      sum += row[t];
    }
    auto inverse = static_cast<float>(1 / sum);
    for (int64_t t = 0; t < sizes_.t; ++t) row[t] *= inverse;
  }

  struct OperandPlan {
    DType dtype;
    int64_t elements;
    int64_t at;  // of its conversion in the workspace; -1: there is none
  };

  DType dtype_;
  ops::AttentionSizes sizes_;
  ops::AttentionExtras extras_;
  int64_t window_, window_after_;
  float scale_, softcap_, hidden_;
  int64_t first_row_;
  bool at_end_;
  int64_t rows_in_all_;  // of queries, over all ranks
  bool converts_;
  std::vector<OperandPlan> operands_;
  Shape mask_strides_;
  std::unique_ptr<Gemm> scores_gemm_, values_gemm_;
  WorkspaceLayout layout_;
  int64_t scores_at_ = 0, gemm_at_ = 0, out_at_ = 0;
};

// f64 is left to the reference, and so is what has no element.
bool Supports(const KernelUse& use) {
  for (int i = 0; i < kFirstExtra; ++i) {
    if (use.operand(i).num_elements() == 0) return false;
  }
  return use.operand(0).dtype != DType::kF64;
}

}  // namespace

std::vector<CpuKernelDef> AttentionKernels() {
  return {{"attention", Supports, AttentionKernel::Prepare}};
}

}  // namespace asyra::cpu
