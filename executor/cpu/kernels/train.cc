// Losses of rows (ir/ops/loss.cc) and updates of parameters (ir/ops/optim.cc),
// in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "ir/halves.h"
#include "ir/multi_adamw.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

class CrossEntropyKernel : public CpuKernel {
 public:
  explicit CrossEntropyKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype),
        label_dtype_(use.operand(1).dtype),
        rows_(use.operand(1).num_elements()),
        size_(use.operand(0).size(use.operand(0).rank() - 1)),
        ignored_(use.attrs().Int("ignore_index")),
        smoothing_(use.attrs().Float("label_smoothing")) {}
  int64_t workspace_bytes() const override { return size_ * 8; }

  absl::Status Run(const KernelArgs& args) override {
    auto* row = static_cast<double*>(args.workspace);
    for (int64_t i = 0; i < rows_; ++i) {
      int64_t label = IntegerAt(label_dtype_, args.operands[1], i);
      double loss = 0;
      if (label != ignored_) {
        if (label < 0 || label >= size_) {
          return Invalid("label {} is not in [0, {})", label, size_);
        }
        LoadLine(dtype_, args.operands[0], i * size_, 1, size_, row);
        loss = Loss(row, label);
      }
      StoreLine(dtype_, &loss, 1, args.results[0], i, 1);
    }
    return absl::OkStatus();
  }

 private:
  double Loss(const double* row, int64_t label) const {
    double largest = *std::max_element(row, row + size_), sum = 0, all = 0;
    for (int64_t i = 0; i < size_; ++i) {
      sum += std::exp(row[i] - largest);
      all += row[i];
    }
    double whole = std::isinf(largest) ? largest : largest + std::log(sum);
    double target = (1 - smoothing_) * row[label];
    if (smoothing_ > 0) {
      target += smoothing_ / static_cast<double>(size_) * all;
    }
    return whole - target;
  }

  DType dtype_, label_dtype_;
  int64_t rows_, size_, ignored_;
  double smoothing_;
};

// Elements that are updated at a time, all operands of which stay in the first
// level cache. A block is read before it is written, so that results may
// overwrite their operands.
constexpr int64_t kBlock = 512;

// Shared by all updates: the first operands have the parameter's shape and are
// processed block by block; the first of them are the results.
template <size_t operands, typename Update>
class UpdateKernel : public CpuKernel {
 public:
  UpdateKernel(const KernelUse& use, std::array<int, operands> numbers,
               Update update)
      : count_(use.operand(0).num_elements()),
        results_(use.num_results()),
        numbers_(numbers),
        update_(std::move(update)) {
    for (size_t i = 0; i < operands; ++i) {
      if (numbers[i] >= 0) dtypes_[i] = use.operand(numbers[i]).dtype;
    }
    result_dtype_ = use.result(0).dtype;
    in_halves_ = UpdatesInHalves(use.attrs());
  }

  absl::Status Run(const KernelArgs& args) override {
    ASYRA_RETURN_IF_ERROR(update_.Begin(args));
    std::array<std::array<double, kBlock>, operands> blocks;
    for (int64_t begin = 0; begin < count_; begin += kBlock) {
      int64_t count = std::min(kBlock, count_ - begin);
      for (size_t i = 0; i < operands; ++i) {
        if (numbers_[i] < 0) {
          blocks[i].fill(0);
        } else if (i == 0 && in_halves_) {
          LoadHalves(args.operands[0], begin, begin + count, count_,
                     blocks[0].data());
        } else {
          LoadLine(dtypes_[i], args.operands[numbers_[i]], begin, 1, count,
                   blocks[i].data());
        }
      }
      for (int64_t k = 0; k < count; ++k) update_.Step(k, &blocks);
      for (int i = 0; i < results_; ++i) {
        // Parameter, gradient, states: the gradient is no result.
        const auto& block = blocks[i == 0 ? 0 : i + 1];
        if (i == 0 && in_halves_) {
          StoreHalves(block.data(), begin, begin + count, count_,
                      args.results[0]);
          continue;
        }
        StoreLine(result_dtype_, block.data(), count, args.results[i], begin,
                  1);
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t count_;
  int results_;
  bool in_halves_ = false;
  std::array<int, operands> numbers_;  // of the operands; -1: zeros
  std::array<DType, operands> dtypes_{};
  DType result_dtype_;
  Update update_;
};

double NumberAt(DType dtype, const void* data) {
  double value = 0;
  Load(dtype, data, 1, &value);
  return value;
}

// Parameter, gradient, velocity.
struct Sgd {
  DType rate_dtype;
  double momentum, decay;
  bool nesterov;
  double rate = 0;

  absl::Status Begin(const KernelArgs& args) {
    rate = NumberAt(rate_dtype, args.operands[2]);
    return absl::OkStatus();
  }
  template <typename Blocks>
  void Step(int64_t k, Blocks* blocks) const {
    auto& [param, grad, velocity] = *blocks;
    double step = grad[k] + decay * param[k];
    velocity[k] = momentum * velocity[k] + step;
    param[k] -= rate * (nesterov ? step + momentum * velocity[k] : velocity[k]);
  }
};

Prepared PrepareSgd(const KernelUse& use) {
  Sgd sgd{.rate_dtype = use.operand(2).dtype,
          .momentum = use.attrs().Float("momentum"),
          .decay = use.attrs().Float("weight_decay"),
          .nesterov = use.attrs().Bool("nesterov")};
  int velocity = use.num_operands() > 3 ? 3 : -1;
  return std::make_unique<UpdateKernel<3, Sgd>>(
      use, std::array<int, 3>{0, 1, velocity}, sgd);
}

// Parameter, gradient, m, v.
struct AdamW {
  DType rate_dtype, step_dtype;
  std::optional<DType> scale_dtype;
  double beta1, beta2, eps, decay;
  double rate = 0, scale = 1, scale1 = 0, scale2 = 0;

  absl::Status Begin(const KernelArgs& args) {
    rate = NumberAt(rate_dtype, args.operands[4]);
    int64_t step = IntegerAt(step_dtype, args.operands[5], 0);
    if (step < 1) return Invalid("step is {}, the first one is 1", step);
    if (scale_dtype.has_value()) {
      scale = NumberAt(*scale_dtype, args.operands[6]);
    }
    scale1 = 1 / (1 - std::pow(beta1, step));
    scale2 = 1 / (1 - std::pow(beta2, step));
    return absl::OkStatus();
  }
  template <typename Blocks>
  void Step(int64_t k, Blocks* blocks) const {
    if (!std::isfinite(scale)) return;
    auto& [param, grad, m, v] = *blocks;
    double slope = scale * grad[k];
    m[k] = beta1 * m[k] + (1 - beta1) * slope;
    v[k] = beta2 * v[k] + (1 - beta2) * slope * slope;
    double change = scale1 * m[k] / (std::sqrt(scale2 * v[k]) + eps);
    param[k] -= rate * (change + decay * param[k]);
  }
};

Prepared PrepareAdamW(const KernelUse& use) {
  AdamW adamw{.rate_dtype = use.operand(4).dtype,
              .step_dtype = use.operand(5).dtype,
              .beta1 = use.attrs().Float("beta1"),
              .beta2 = use.attrs().Float("beta2"),
              .eps = use.attrs().Float("eps"),
              .decay = use.attrs().Float("weight_decay")};
  if (use.num_operands() > 6) adamw.scale_dtype = use.operand(6).dtype;
  return std::make_unique<UpdateKernel<4, AdamW>>(
      use, std::array<int, 4>{0, 1, 2, 3}, adamw);
}

// Each parameter is updated as by adamw.
class MultiAdamWKernel : public CpuKernel {
 public:
  void Add(std::unique_ptr<Kernel> adamw) {
    updates_.push_back(std::move(adamw));
  }

  absl::Status Run(const KernelArgs& args) override {
    for (size_t i = 0; i < updates_.size(); ++i) {
      auto operands = OfAdamW(args.operands, i);
      auto results = args.results.subspan(kAdamWResults * i, kAdamWResults);
      ASYRA_RETURN_IF_ERROR(static_cast<CpuKernel&>(*updates_[i])
                                .Run({operands, results, args.workspace}));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::unique_ptr<Kernel>> updates_;
};

Prepared PrepareMultiAdamW(const KernelUse& use) {
  auto all = std::make_unique<MultiAdamWKernel>();
  const auto& results = use.global_results();
  for (size_t i = 0; kAdamWResults * i < results.size(); ++i) {
    auto operands = OfAdamW<Type>(use.global_operands(), i);
    auto next = results.begin() + kAdamWResults * i;
    ASYRA_ASSIGN_OR_RETURN(
        std::unique_ptr<Kernel> adamw,
        PrepareAdamW(KernelUse(
            *FindOp("adamw"), use.attrs(), {operands.begin(), operands.end()},
            {next, next + kAdamWResults}, use.mesh(), use.rank())));
    all->Add(std::move(adamw));
  }
  return all;
}

Prepared PrepareCrossEntropy(const KernelUse& use) {
  return std::make_unique<CrossEntropyKernel>(use);
}

bool Always(const KernelUse&) { return true; }

bool HasLabels(const KernelUse& use) {
  return use.operand(0).size(use.operand(0).rank() - 1) > 0;
}

}  // namespace

std::vector<CpuKernelDef> TrainKernels() {
  return {{"cross_entropy", HasLabels, PrepareCrossEntropy},
          {"sgd", Always, PrepareSgd},
          {"adamw", Always, PrepareAdamW},
          {"multi_adamw", Always, PrepareMultiAdamW}};
}

}  // namespace asyra::cpu
