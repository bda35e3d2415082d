// What is computed row by row along one dimension: softmax (ir/ops/softmax.cc),
// norms (ir/ops/norm.cc). In single precision, or double for f64; sums over
// many elements are taken in double.
#include <algorithm>
#include <cmath>

#include "executor/cpu/convert.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

// [outer, size, inner].
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
  // Dimensions [begin, end) are the middle.
  Around(const Type& type, int begin, int end) {
    for (int d = 0; d < begin; ++d) outer *= type.size(d);
    for (int d = begin; d < end; ++d) size *= type.size(d);
    for (int d = end; d < type.rank(); ++d) inner *= type.size(d);
  }
};

bool IsFloatUse(const KernelUse& use) { return IsFloat(use.operand(0).dtype); }

// What one line of elements becomes, in place; `size` of them, together.
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
    int64_t element = SizeOf(dtype_), stride = around_.inner * element;
    for (int64_t o = 0; o < around_.outer; ++o) {
      for (int64_t i = 0; i < around_.inner; ++i) {
        int64_t first = (o * around_.size * around_.inner + i) * element;
        const auto* from =
            static_cast<const std::byte*>(args.operands[0]) + first;
        auto* to = static_cast<std::byte*>(args.results[0]) + first;
        if (around_.inner == 1) {
          Load(dtype_, from, around_.size, line);
          fn_(line, around_.size);
          Store(dtype_, line, around_.size, to);
          continue;
        }
        for (int64_t k = 0; k < around_.size; ++k) {
          Load(dtype_, from + k * stride, 1, line + k);
        }
        fn_(line, around_.size);
        for (int64_t k = 0; k < around_.size; ++k) {
          Store(dtype_, line + k, 1, to + k * stride);
        }
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
      {"rms_norm", IsFloatUse, PrepareNorm<false>},
      {"layer_norm", IsFloatUse, PrepareNorm<true>},
  };
}

}  // namespace asyra::cpu
