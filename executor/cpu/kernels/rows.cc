// Ops that compute row by row along one dimension: softmax and running
// sums (ir/ops/softmax.cc), norms (ir/ops/norm.cc). In single precision, or
// double for f64; sums over many elements are taken in double.
#include <algorithm>
#include <cmath>

#include "executor/cpu/convert.h"
#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "ir/ops/integers.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

bool IsFloatUse(const KernelUse& use) { return IsFloat(use.operand(0).dtype); }

// Computes one contiguous line of `size` elements in place.
template <typename T>
using LineFn = void (*)(T* line, int64_t size);

template <bool log, typename T>
void Softmax(T* line, int64_t size) {
  T largest = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < size; ++i) largest = std::max(largest, line[i]);
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    line[i] -= largest;
    T power = std::exp(line[i]);
    sum += power;
    if (!log) line[i] = power;
  }
  if (log) {
    T shift = static_cast<T>(std::log(sum));
    for (int64_t i = 0; i < size; ++i) line[i] -= shift;
  } else {
    T scale = static_cast<T>(1 / sum);
    for (int64_t i = 0; i < size; ++i) line[i] *= scale;
  }
}

// Lines along a dimension are brought together in the workspace, and back.
template <typename T>
class LineKernel : public CpuKernel {
 public:
  LineKernel(const KernelUse& use, int dim, LineFn<T> fn)
      : dtype_(use.operand(0).dtype),
        around_(use.operand(0), dim, dim + 1),
        fn_(fn) {}
  int64_t workspace_bytes() const override {
    return around_.size * static_cast<int64_t>(sizeof(T));
  }

  absl::Status Run(const KernelArgs& args) override {
    T* line = static_cast<T*>(args.workspace);
    for (int64_t o = 0; o < around_.outer; ++o) {
      for (int64_t i = 0; i < around_.inner; ++i) {
        int64_t first = o * around_.size * around_.inner + i;
        LoadLine(dtype_, args.operands[0], first, around_.inner, around_.size,
                 line);
        fn_(line, around_.size);
        StoreLine(dtype_, line, around_.size, args.results[0], first,
                  around_.inner);
      }
    }
    return absl::OkStatus();
  }

 private:
  DType dtype_;
  Around around_;
  LineFn<T> fn_;
};

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

template <bool exclusive, bool reverse, typename T>
void RunningSum(T* line, int64_t size) {
  T sum{};
  for (int64_t i = 0; i < size; ++i) {
    T& value = line[reverse ? size - 1 - i : i];
    T next = ops::Plus(sum, value);
    value = exclusive ? sum : next;
    sum = next;
  }
}

template <typename T>
Prepared MakeRunningSum(const KernelUse& use) {
  bool exclusive = use.attrs().Bool("exclusive");
  LineFn<T> fn =
      use.attrs().Bool("reverse")
          ? exclusive ? RunningSum<true, true, T> : RunningSum<false, true, T>
      : exclusive ? RunningSum<true, false, T>
                  : RunningSum<false, false, T>;
  int dim = NormalizeDim(use.attrs().Int("dim"), use.operand(0).rank());
  return std::make_unique<LineKernel<T>>(use, dim, fn);
}

Prepared PrepareRunningSum(const KernelUse& use) {
  return IsFloatUse(use) ? MakeRunningSum<double>(use)
                         : MakeRunningSum<int64_t>(use);
}

template <bool log>
Prepared PrepareSoftmax(const KernelUse& use) {
  int dim = NormalizeDim(use.attrs().Int("dim"), use.operand(0).rank());
  if (use.operand(0).dtype == DType::kF64) {
    return std::make_unique<LineKernel<double>>(use, dim, Softmax<log, double>);
  }
  return std::make_unique<LineKernel<float>>(use, dim, Softmax<log, float>);
}

// x, scale and, for layer_norm, an optional bias.
template <typename T, bool centered>
class NormKernel : public CpuKernel {
 public:
  explicit NormKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype),
        eps_(use.attrs().Float("eps")),
        size_(use.operand(1).num_elements()),
        rows_(size_ == 0 ? 0 : use.operand(0).num_elements() / size_),
        has_bias_(use.num_operands() > 2) {
    row_at_ = layout_.Add(size_ * static_cast<int64_t>(sizeof(T)));
    scale_at_ = layout_.Add(size_ * static_cast<int64_t>(sizeof(T)));
    bias_at_ = layout_.Add(size_ * static_cast<int64_t>(sizeof(T)));
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    T* row = WorkspaceAt<T>(args.workspace, row_at_);
    T* scale = WorkspaceAt<T>(args.workspace, scale_at_);
    T* bias = WorkspaceAt<T>(args.workspace, bias_at_);
    Load(dtype_, args.operands[1], size_, scale);
    std::fill_n(bias, size_, T{0});
    if (has_bias_) Load(dtype_, args.operands[2], size_, bias);
    int64_t bytes = size_ * SizeOf(dtype_);
    for (int64_t r = 0; r < rows_; ++r) {
      Load(dtype_, static_cast<const std::byte*>(args.operands[0]) + r * bytes,
           size_, row);
      Normalize(row, scale, bias);
      Store(dtype_, row, size_,
            static_cast<std::byte*>(args.results[0]) + r * bytes);
    }
    return absl::OkStatus();
  }

 private:
  void Normalize(T* row, const T* scale, const T* bias) const {
    double mean = 0, square = 0;
    if (centered) {
      for (int64_t i = 0; i < size_; ++i) mean += row[i];
      mean /= static_cast<double>(size_);
    }
    T shift = static_cast<T>(mean);
    for (int64_t i = 0; i < size_; ++i) {
      row[i] -= shift;
      square += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    }
    T inverse = static_cast<T>(
        1 / std::sqrt(square / static_cast<double>(size_) + eps_));
    for (int64_t i = 0; i < size_; ++i) {
      row[i] = row[i] * inverse * scale[i] + bias[i];
    }
  }

  DType dtype_;
  double eps_;
  int64_t size_, rows_;
  bool has_bias_;
  WorkspaceLayout layout_;
  int64_t row_at_, scale_at_, bias_at_;
};

template <bool centered>
Prepared PrepareNorm(const KernelUse& use) {
  if (use.operand(0).dtype == DType::kF64) {
    return std::make_unique<NormKernel<double, centered>>(use);
  }
  return std::make_unique<NormKernel<float, centered>>(use);
}

}  // namespace

std::vector<CpuKernelDef> RowKernels() {
  return {
      {"softmax", IsFloatUse, PrepareSoftmax<false>},
      {"log_softmax", IsFloatUse, PrepareSoftmax<true>},
      {"cumsum", [](const KernelUse&) { return true; }, PrepareRunningSum},
      {"rms_norm", IsFloatUse, PrepareNorm<false>},
      {"layer_norm", IsFloatUse, PrepareNorm<true>},
  };
}

}  // namespace asyra::cpu
