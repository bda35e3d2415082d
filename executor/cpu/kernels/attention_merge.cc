// Results of attention over parts of the keys as one
// (ir/ops/attention_merge.cc), in single precision; f64 is left to the
// reference.
#include <cmath>
#include <limits>

#include "executor/cpu/convert.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "ir/ops/integers.h"

namespace asyra::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class MergeKernel : public CpuKernel {
 public:
  explicit MergeKernel(const KernelUse& use)
      : shape_(use.operand(0).shape()), result_(use.result(0).dtype) {
    for (int i = 0; i < use.num_operands(); i += 2) {
      parts_.push_back(use.operand(i).dtype);
    }
    weights_.resize(parts_.size());
    row_at_ = layout_.Add(shape_[3] * 4);
    sum_at_ = layout_.Add(shape_[3] * 4);
  }

  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    int64_t rows = shape_[1], heads = shape_[2], size = shape_[3];
    auto* part = WorkspaceAt<float>(args.workspace, row_at_);
    auto* sum = WorkspaceAt<float>(args.workspace, sum_at_);
    for (int64_t row = 0; row < shape_[0] * rows * heads; ++row) {
      int64_t h = row % heads, s = row / heads % rows, b = row / heads / rows;
      SetWeights(args, (b * heads + h) * rows + s);
      std::fill_n(sum, size, 0.0f);
      for (size_t p = 0; p < parts_.size(); ++p) {
        if (weights_[p] == 0) continue;
        Load(parts_[p], At(args.operands[2 * p], parts_[p], row * size), size,
             part);
        for (int64_t e = 0; e < size; ++e) sum[e] += weights_[p] * part[e];
      }
      Store(result_, sum, size, At(args.results[0], result_, row * size));
    }
    return absl::OkStatus();
  }

 private:
  static void* At(void* data, DType dtype, int64_t element) {
    return static_cast<std::byte*>(data) + element * SizeOf(dtype);
  }

  // The weights of the parts of a row, and its log sum.
  void SetWeights(const KernelArgs& args, int64_t at) {
    float largest = -kInfinity, sum = 0;
    for (size_t p = 0; p < parts_.size(); ++p) {
      weights_[p] = static_cast<const float*>(args.operands[2 * p + 1])[at];
      if (weights_[p] != kInfinity) {
        largest = ops::Maximum(largest, weights_[p]);
      }
    }
    for (float& weight : weights_) {
      weight = weight == kInfinity ? 0 : std::exp(weight - largest);
      sum += weight;
    }
    bool sees = largest != -kInfinity;
    if (sees) {
      for (float& weight : weights_) weight /= sum;
    }
    static_cast<float*>(args.results[1])[at] =
        sees ? largest + std::log(sum) : kInfinity;
  }

  Shape shape_;
  DType result_;
  std::vector<DType> parts_;
  std::vector<float> weights_;  // scratch
  WorkspaceLayout layout_;
  int64_t row_at_ = 0, sum_at_ = 0;
};

bool IsSingle(const KernelUse& use) {
  return use.operand(1).dtype == DType::kF32;
}

}  // namespace

std::vector<CpuKernelDef> AttentionMergeKernels() {
  return {{"attention_merge", IsSingle,
           [](const KernelUse& use) -> absl::StatusOr<std::unique_ptr<Kernel>> {
             return std::make_unique<MergeKernel>(use);
           }}};
}

}  // namespace asyra::cpu
