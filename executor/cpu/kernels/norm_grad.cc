// Gradients of norms (ir/ops/norm_grad.cc), in double.
#include <algorithm>
#include <cmath>

#include "executor/cpu/convert.h"
#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"

namespace asyra::cpu {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

// x, scale, dy and, optionally, what is added to dx.
template <bool centered>
class NormGradKernel : public CpuKernel {
 public:
  explicit NormGradKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype),
        sum_dtype_(use.result(1).dtype),
        eps_(use.attrs().Float("eps")),
        size_(use.operand(1).num_elements()),
        rows_(size_ == 0 ? 0 : use.operand(0).num_elements() / size_),
        has_rest_(use.num_operands() > 3),
        has_bias_(use.num_results() > 2) {
    for (int64_t& at : at_) at = layout_.Add(size_ * 8);
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    double* scale = Line(args, kScale);
    double *dscale = Line(args, kScaleSum), *dbias = Line(args, kBiasSum);
    Load(dtype_, args.operands[1], size_, scale);
    std::fill_n(dscale, size_, 0.0);
    std::fill_n(dbias, size_, 0.0);
    for (int64_t r = 0; r < rows_; ++r) {
      double *n = Line(args, kX), *dy = Line(args, kDy);
      LoadLine(dtype_, args.operands[0], r * size_, 1, size_, n);
      LoadLine(dtype_, args.operands[2], r * size_, 1, size_, dy);
      double inverse = Normalize(n);
      for (int64_t i = 0; i < size_; ++i) {
        dscale[i] += dy[i] * n[i];
        dbias[i] += dy[i];
      }
      Backward(n, scale, inverse, dy);
      if (has_rest_) {
        LoadLine(dtype_, args.operands[3], r * size_, 1, size_, n);
        for (int64_t i = 0; i < size_; ++i) dy[i] += n[i];
      }
      StoreLine(dtype_, dy, size_, args.results[0], r * size_, 1);
    }
    Store(sum_dtype_, dscale, size_, args.results[1]);
    if (has_bias_) Store(sum_dtype_, dbias, size_, args.results[2]);
    return absl::OkStatus();
  }

 private:
  enum { kX, kDy, kScale, kScaleSum, kBiasSum, kLines };

  double* Line(const KernelArgs& args, int line) const {
    return WorkspaceAt<double>(args.workspace, at_[line]);
  }

  // The normalized row in place of x; returns what it was multiplied with.
  double Normalize(double* x) const {
    double mean = 0, square = 0;
    if (centered) {
      for (int64_t i = 0; i < size_; ++i) mean += x[i];
      mean /= static_cast<double>(size_);
    }
    for (int64_t i = 0; i < size_; ++i) {
      x[i] -= mean;
      square += x[i] * x[i];
    }
    double r = 1 / std::sqrt(square / static_cast<double>(size_) + eps_);
    for (int64_t i = 0; i < size_; ++i) x[i] *= r;
    return r;
  }

  // dx in place of dy.
  void Backward(const double* n, const double* scale, double inverse,
                double* dy) const {
    double shift = 0, slope = 0;
    for (int64_t i = 0; i < size_; ++i) {
      dy[i] *= scale[i];
      shift += dy[i];
      slope += dy[i] * n[i];
    }
    shift = centered ? shift / static_cast<double>(size_) : 0;
    slope /= static_cast<double>(size_);
    for (int64_t i = 0; i < size_; ++i) {
      dy[i] = inverse * (dy[i] - n[i] * slope - shift);
    }
  }

  DType dtype_, sum_dtype_;
  double eps_;
  int64_t size_, rows_;
  bool has_rest_, has_bias_;
  WorkspaceLayout layout_;
  int64_t at_[kLines];
};

template <bool centered>
Prepared Prepare(const KernelUse& use) {
  return std::make_unique<NormGradKernel<centered>>(use);
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CpuKernelDef> NormGradKernels() {
  return {{"rms_norm_grad", Always, Prepare<false>},
          {"layer_norm_grad", Always, Prepare<true>}};
}

}  // namespace asyra::cpu
