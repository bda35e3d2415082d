// Random values by global index (ir/ops/random.cc).
#include "ir/support/random.h"

#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/strided.h"
#include "executor/cpu/workspace.h"
#include "ir/ops/random_numbers.h"

namespace asyra::cpu {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

// Runs of elements of one rank that are neighbours in the whole.
class GlobalRuns {
 public:
  GlobalRuns(const KernelUse& use, const Type& global)
      : local_(global.Local(use.mesh()).shape()),
        strides_(DenseStrides(global.shape())) {
    for (int d = 0; d < global.rank(); ++d) {
      start_.push_back(use.Start(global, d));
    }
    elements_ = NumElements(local_);
  }

  int64_t run() const { return local_.empty() ? 1 : local_.back(); }

  // Calls visit(first element here, first element in the whole).
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (int64_t i = 0; i < elements_; i += run()) {
      int64_t rest = i, whole = 0;
      for (size_t d = local_.size(); d-- > 0; rest /= local_[d]) {
        whole += (start_[d] + rest % local_[d]) * strides_[d];
      }
      visit(i, whole);
    }
  }

 private:
  Shape local_, strides_, start_;
  int64_t elements_;
};

RandomStream StreamOf(const void* key) {
  return {static_cast<uint64_t>(IntegerAt(DType::kI64, key, 0)),
          static_cast<uint64_t>(IntegerAt(DType::kI64, key, 1))};
}

template <bool normal>
class RandomKernel : public CpuKernel {
 public:
  explicit RandomKernel(const KernelUse& use)
      : runs_(use, use.global_results()[0]),
        dtype_(use.result(0).dtype),
        bits_(ops::FractionBits(dtype_)) {}
  int64_t workspace_bytes() const override { return runs_.run() * 8; }

  absl::Status Run(const KernelArgs& args) override {
    RandomStream stream = StreamOf(args.operands[0]);
    auto* line = static_cast<double*>(args.workspace);
    runs_.ForEach([&](int64_t here, int64_t whole) {
      for (int64_t i = 0; i < runs_.run(); ++i) {
        line[i] = normal ? ops::Normal(&stream, whole + i)
                         : ops::Uniform(stream.Word(whole + i), bits_);
      }
      StoreLine(dtype_, line, runs_.run(), args.results[0], here, 1);
    });
    return absl::OkStatus();
  }

 private:
  GlobalRuns runs_;
  DType dtype_;
  int bits_;
};

class DropoutKernel : public CpuKernel {
 public:
  explicit DropoutKernel(const KernelUse& use)
      : runs_(use, use.global_operands()[0]),
        dtype_(use.operand(0).dtype),
        rate_(use.attrs().Float("rate")) {}
  int64_t workspace_bytes() const override { return runs_.run() * 8; }

  absl::Status Run(const KernelArgs& args) override {
    RandomStream stream = StreamOf(args.operands[1]);
    auto* line = static_cast<double*>(args.workspace);
    runs_.ForEach([&](int64_t here, int64_t whole) {
      LoadLine(dtype_, args.operands[0], here, 1, runs_.run(), line);
      for (int64_t i = 0; i < runs_.run(); ++i) {
        bool drops = ops::Uniform(stream.Word(whole + i), 24) < rate_;
        line[i] = drops ? 0 : line[i] / (1 - rate_);
      }
      StoreLine(dtype_, line, runs_.run(), args.results[0], here, 1);
    });
    return absl::OkStatus();
  }

 private:
  GlobalRuns runs_;
  DType dtype_;
  double rate_;
};

template <typename K>
Prepared Prepare(const KernelUse& use) {
  return std::make_unique<K>(use);
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CpuKernelDef> RandomKernels() {
  return {{"random_uniform", Always, Prepare<RandomKernel<false>>},
          {"random_normal", Always, Prepare<RandomKernel<true>>},
          {"dropout", Always, Prepare<DropoutKernel>}};
}

}  // namespace asyra::cpu
