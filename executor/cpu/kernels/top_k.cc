// The largest and smallest elements along a dimension (ir/ops/topk.cc), and
// the experts of tokens (ir/ops/moe_router.cc).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"

namespace asyra::cpu {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

// Returns whether `a` is larger; not-a-number is the largest.
template <typename T>
bool Larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  }
  return a > b;
}

// The first `count` of `order`: the indices of the larger (smaller) elements
// of a line and, of equal ones, the lower (higher) first.
template <typename T>
void FindTopK(const T* line, int64_t size, int64_t count, bool largest,
              bool last, int64_t* order) {
  std::iota(order, order + size, int64_t{0});
  std::partial_sort(order, order + count, order + size,
                    [&](int64_t i, int64_t j) {
                      if (Larger(line[i], line[j])) return largest;
                      if (Larger(line[j], line[i])) return !largest;
                      return last ? i > j : i < j;
                    });
}

// The first `count` of each line; values too where `indices` is result 1.
template <typename T>  // double or int64_t
class TopKKernel : public CpuKernel {
 public:
  TopKKernel(const KernelUse& use, int64_t count, bool largest, bool last)
      : dtype_(use.operand(0).dtype),
        around_(AroundDim(use)),
        count_(count),
        largest_(largest),
        last_(last),
        gives_values_(use.num_results() == 2) {
    line_at_ = layout_.Add(around_.size * static_cast<int64_t>(sizeof(T)));
    order_at_ = layout_.Add(around_.size * 8);
    values_at_ = layout_.Add(count * static_cast<int64_t>(sizeof(T)));
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    T* line = WorkspaceAt<T>(args.workspace, line_at_);
    T* values = WorkspaceAt<T>(args.workspace, values_at_);
    auto* order = WorkspaceAt<int64_t>(args.workspace, order_at_);
    for (int64_t o = 0; o < around_.outer; ++o) {
      for (int64_t i = 0; i < around_.inner; ++i) {
        LoadLine(dtype_, args.operands[0], o * around_.size * around_.inner + i,
                 around_.inner, around_.size, line);
        FindTopK(line, around_.size, count_, largest_, last_, order);
        int64_t to = o * count_ * around_.inner + i;
        StoreLine(DType::kI64, order, count_,
                  args.results[gives_values_ ? 1 : 0], to, around_.inner);
        if (!gives_values_) continue;
        for (int64_t k = 0; k < count_; ++k) values[k] = line[order[k]];
        StoreLine(dtype_, values, count_, args.results[0], to, around_.inner);
      }
    }
    return absl::OkStatus();
  }

 private:
  static Around AroundDim(const KernelUse& use) {
    int dim = NormalizeDim(use.attrs().Int("dim"), use.operand(0).rank());
    return {use.operand(0), dim, dim + 1};
  }

  DType dtype_;
  Around around_;
  int64_t count_;
  bool largest_, last_, gives_values_;
  WorkspaceLayout layout_;
  int64_t line_at_, order_at_, values_at_;
};

Prepared MakeTopK(const KernelUse& use, int64_t count, bool largest,
                  bool last) {
  if (IsFloat(use.operand(0).dtype)) {
    return std::make_unique<TopKKernel<double>>(use, count, largest, last);
  }
  return std::make_unique<TopKKernel<int64_t>>(use, count, largest, last);
}

Prepared PrepareTopK(const KernelUse& use) {
  return MakeTopK(use, use.attrs().Int("k"), use.attrs().Bool("largest"),
                  false);
}

template <bool largest>
Prepared PrepareArg(const KernelUse& use) {
  return MakeTopK(use, 1, largest, use.attrs().Bool("last"));
}

// Scores of a token in double, as its reference has them: which experts are
// chosen depends on their last bits.
class RouterKernel : public CpuKernel {
 public:
  explicit RouterKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype),
        experts_(use.operand(0).size(use.operand(0).rank() - 1)),
        tokens_(use.operand(0).num_elements() / std::max<int64_t>(1, experts_)),
        k_(use.attrs().Int("k")),
        softmax_(use.attrs().Get<std::string>("scoring") == "softmax"),
        normalize_(use.attrs().Bool("normalize")) {
    scores_at_ = layout_.Add(experts_ * 8);
    order_at_ = layout_.Add(experts_ * 8);
    weights_at_ = layout_.Add(k_ * 8);
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    auto* scores = WorkspaceAt<double>(args.workspace, scores_at_);
    auto* weights = WorkspaceAt<double>(args.workspace, weights_at_);
    auto* order = WorkspaceAt<int64_t>(args.workspace, order_at_);
    for (int64_t token = 0; token < tokens_; ++token) {
      LoadLine(dtype_, args.operands[0], token * experts_, 1, experts_, scores);
      Score(scores);
      FindTopK(scores, experts_, k_, true, false, order);
      double sum = 0;
      for (int64_t i = 0; i < k_; ++i) sum += scores[order[i]];
      for (int64_t i = 0; i < k_; ++i) {
        weights[i] = scores[order[i]] / (normalize_ ? sum : 1);
      }
      StoreLine(dtype_, weights, k_, args.results[0], token * k_, 1);
      StoreLine(DType::kI64, order, k_, args.results[1], token * k_, 1);
    }
    return absl::OkStatus();
  }

 private:
  void Score(double* logits) const {
    if (!softmax_) {
      for (int64_t e = 0; e < experts_; ++e) {
        logits[e] = 1 / (1 + std::exp(-logits[e]));
      }
      return;
    }
    double largest = *std::max_element(logits, logits + experts_), sum = 0;
    for (int64_t e = 0; e < experts_; ++e) {
      sum += logits[e] = std::exp(logits[e] - largest);
    }
    for (int64_t e = 0; e < experts_; ++e) logits[e] /= sum;
  }

  DType dtype_;
  int64_t experts_, tokens_, k_;
  bool softmax_, normalize_;
  WorkspaceLayout layout_;
  int64_t scores_at_, order_at_, weights_at_;
};

Prepared PrepareRouter(const KernelUse& use) {
  return std::make_unique<RouterKernel>(use);
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CpuKernelDef> TopKKernels() {
  return {{"top_k", Always, PrepareTopK},
          {"arg_max", Always, PrepareArg<true>},
          {"arg_min", Always, PrepareArg<false>},
          {"moe_router", Always, PrepareRouter}};
}

}  // namespace asyra::cpu
