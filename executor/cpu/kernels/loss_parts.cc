// Losses of parts of rows, and their gradients (ir/ops/loss_parts.cc), in
// double.
#include <algorithm>
#include <cmath>

#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

// Rows in parts, of which this rank holds those from column `start` on.
struct Parts {
  explicit Parts(const KernelUse& use, int64_t parts)
      : dtype(use.operand(0).dtype),
        label_dtype(use.operand(1).dtype),
        rows(use.operand(1).num_elements()),
        parts(parts) {
    int last = use.operand(0).rank() - 1;
    const Type& global = use.global_operands()[0];
    size = use.operand(0).size(last) / parts;
    start = use.Start(global, last);
    classes = use.attrs().Int("classes");
    if (classes < 0) classes = global.size(last);
  }
  // Columns of a part that are no padding.
  int64_t Real(int64_t part) const {
    return std::clamp<int64_t>(classes - start - part * size, 0, size);
  }

  DType dtype, label_dtype;
  int64_t rows, parts;
  int64_t size = 0, start = 0, classes = 0;
};

class PartsKernel : public CpuKernel {
 public:
  explicit PartsKernel(const KernelUse& use)
      : p_(use, use.result(0).size(use.result(0).rank() - 1)),
        sum_dtype_(use.result(0).dtype),
        ignored_(use.attrs().Int("ignore_index")) {}
  int64_t workspace_bytes() const override { return p_.size * 8; }

  absl::Status Run(const KernelArgs& args) override {
    auto* x = static_cast<double*>(args.workspace);
    for (int64_t i = 0; i < p_.rows * p_.parts; ++i) {
      int64_t label = IntegerAt(p_.label_dtype, args.operands[1], i / p_.parts);
      if (label != ignored_ && (label < 0 || label >= p_.classes)) {
        return Invalid("label {} is not in [0, {})", label, p_.classes);
      }
      int64_t part = i % p_.parts, real = p_.Real(part);
      LoadLine(p_.dtype, args.operands[0], i * p_.size, 1, real, x);
      double sum = LogSum(x, real), target = 0;
      int64_t at = label - p_.start - part * p_.size;
      if (label != ignored_ && at >= 0 && at < real) target = x[at];
      StoreLine(sum_dtype_, &sum, 1, args.results[0], i, 1);
      StoreLine(sum_dtype_, &target, 1, args.results[1], i, 1);
    }
    return absl::OkStatus();
  }

 private:
  static double LogSum(const double* x, int64_t size) {
    double most = -HUGE_VAL, sum = 0;
    for (int64_t c = 0; c < size; ++c) most = std::max(most, x[c]);
    if (std::isinf(most)) return most;
    for (int64_t c = 0; c < size; ++c) sum += std::exp(x[c] - most);
    return most + std::log(sum);
  }

  Parts p_;
  DType sum_dtype_;
  int64_t ignored_;
};

class PartsGradKernel : public CpuKernel {
 public:
  explicit PartsGradKernel(const KernelUse& use)
      : p_(use, use.operand(2).size(use.operand(2).rank() - 1)),
        sum_dtype_(use.operand(2).dtype) {}
  int64_t workspace_bytes() const override { return p_.size * 8; }

  // Reads a part before it writes it: the result may overwrite the logits.
  absl::Status Run(const KernelArgs& args) override {
    auto* x = static_cast<double*>(args.workspace);
    for (int64_t i = 0; i < p_.rows * p_.parts; ++i) {
      int64_t label = IntegerAt(p_.label_dtype, args.operands[1], i / p_.parts);
      int64_t part = i % p_.parts, real = p_.Real(part);
      int64_t at = label - p_.start - part * p_.size;
      double sum = At(args, 2, i), of_sum = At(args, 3, i);
      double of_target = At(args, 4, i);
      LoadLine(p_.dtype, args.operands[0], i * p_.size, 1, p_.size, x);
      if (of_sum == 0 && of_target == 0) real = 0;
      for (int64_t c = 0; c < real; ++c) x[c] = of_sum * std::exp(x[c] - sum);
      if (at >= 0 && at < real) x[at] += of_target;
      std::fill(x + real, x + p_.size, 0.0);
      StoreLine(p_.dtype, x, p_.size, args.results[0], i * p_.size, 1);
    }
    return absl::OkStatus();
  }

 private:
  double At(const KernelArgs& args, int operand, int64_t i) const {
    double value = 0;
    LoadLine(sum_dtype_, args.operands[operand], i, 1, 1, &value);
    return value;
  }

  Parts p_;
  DType sum_dtype_;
};

template <typename K>
Prepared Prepare(const KernelUse& use) {
  return std::make_unique<K>(use);
}

bool HasColumns(const KernelUse& use) {
  return use.operand(0).size(use.operand(0).rank() - 1) > 0;
}

}  // namespace

std::vector<CpuKernelDef> LossPartKernels() {
  return {{"cross_entropy_parts", HasColumns, Prepare<PartsKernel>},
          {"cross_entropy_parts_grad", HasColumns, Prepare<PartsGradKernel>}};
}

}  // namespace asyra::cpu
