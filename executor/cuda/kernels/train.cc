// Losses of rows (ir/ops/loss.cc) and updates of parameters (ir/ops/optim.cc),
// generated.
#include <array>
#include <cmath>

#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "executor/cuda/kernels/multi_adamw.h"
#include "ir/halves.h"
#include "ir/multi_adamw.h"

namespace asyra::cuda {
namespace {

// A label that is no column gives not-a-number.
GeneratedUse CrossEntropy(const KernelUse& use) {
  const Type &x = use.operand(0), &labels = use.operand(1);
  int64_t size = x.size(x.rank() - 1);
  double smoothing = use.attrs().Float("label_smoothing");
  int64_t rows = labels.num_elements();
  Loop loop{.rows = {rows}, .columns = {size}};
  loop.operands = {{{size, 1}}, {{1, 0}}};
  loop.places = {{{0, 1}}};
  loop.results = {{{1, 0}}};
  Expression e;
  int value = e.Operand(x.dtype), label = e.Operand(labels.dtype);
  int zero = e.Number(0, value);
  int largest = e.Reduce(ReductionKind::kMax, value);
  int power = e.Formula("exp($0 - $1)", {value, largest});
  int whole = e.Formula("isinf($1) ? $1 : log($0) + $1",
                        {e.Reduce(ReductionKind::kSum, power), largest});
  int hit = e.Formula("$0 == $1 ? $3 : $2", {label, e.Place(), zero, value});
  int target = e.Reduce(ReductionKind::kSum, hit);
  if (smoothing > 0) {
    int all = e.Reduce(ReductionKind::kSum, value);
    int share = e.Number(smoothing / static_cast<double>(size), value);
    target = e.Formula("$0 * $1 + $2 * $3",
                       {e.Number(1 - smoothing, value), target, share, all});
  }
  std::string ignored = fmt::format(
      "$0 == {}ll ? 0 : $0 < 0 || $0 >= {}ll ? NotANumber() : $1 - $2",
      use.attrs().Int("ignore_index"), size);
  e.Store(e.Formula(ignored, {label, whole, target}), use.result(0).dtype);
  return {e, loop};
}

// Operands in their order: like the parameter, or one scalar for all.
struct Update {
  Expression e;
  Loop loop;
  std::vector<int> operands;
};

Update UpdateOf(const KernelUse& use) {
  int64_t count = use.operand(0).num_elements();
  Update update;
  update.loop.columns = {count};
  for (int i = 0; i < use.num_operands(); ++i) {
    const Type& type = use.operand(i);
    update.operands.push_back(update.e.Operand(type.dtype));
    bool is_number = type.rank() == 0 && use.operand(0).rank() > 0;
    update.loop.operands.push_back({{is_number ? 0 : 1}});
  }
  update.loop.results.assign(use.num_results(), {{1}});
  return update;
}

GeneratedUse Sgd(const KernelUse& use) {
  auto [e, loop, x] = UpdateOf(use);
  double momentum = use.attrs().Float("momentum");
  auto number = [&e = e, like = x[0]](double value) {
    return e.Number(value, like);
  };
  Computed type = ComputedOf(use.operand(0).dtype);
  int decay = number(use.attrs().Float("weight_decay"));
  int step = e.Formula("$0 + $1 * $2", {x[1], decay, x[0]}, type);
  int velocity = step;
  if (x.size() > 3) {
    velocity = e.Formula("$0 * $1 + $2", {number(momentum), x[3], step});
  }
  int change = velocity;
  if (use.attrs().Bool("nesterov")) {
    change = e.Formula("$0 + $1 * $2", {step, number(momentum), velocity});
  }
  e.Store(e.Formula("$0 - $1 * $2", {x[0], x[2], change}, type),
          use.result(0).dtype);
  if (use.num_results() > 1) e.Store(velocity, use.result(1).dtype);
  return {e, loop};
}

bool Always(const KernelUse&) { return true; }

// Updates of all params of adamw or multi_adamw.
class AdamWKernel : public CudaKernel {
 public:
  // `use` has a number of params, each with its grad, m and v, from operand
  // `first_tensor` on, and rate, step and scale, if there is one, from
  // `first_scalar` on.
  AdamWKernel(const KernelUse& use, int params, int first_tensor,
              int first_scalar)
      : first_tensor_(first_tensor), first_scalar_(first_scalar) {
    const AttrMap& attrs = use.attrs();
    has_scale_ = use.num_operands() > kAdamWOfParam * params + 2;
    numbers_ = {.beta1 = attrs.Float("beta1"),
                .beta2 = attrs.Float("beta2"),
                .log_beta1 = std::log(attrs.Float("beta1")),
                .log_beta2 = std::log(attrs.Float("beta2")),
                .eps = attrs.Float("eps"),
                .decay = attrs.Float("weight_decay"),
                .in_halves = attrs.Bool(kInHalves),
                .rate = ElementOf(use.operand(first_scalar).dtype),
                .step = ElementOf(use.operand(first_scalar + 1).dtype)};
    if (has_scale_) {
      numbers_.scale = ElementOf(use.operand(first_scalar + 2).dtype);
    }
    for (int i = 0; i < params; ++i) {
      int param = first_tensor + kAdamWOfParam * i;
      params_.push_back({ElementOf(use.operand(param).dtype),
                         ElementOf(use.operand(param + 1).dtype),
                         use.operand(param).num_elements()});
    }
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    std::array<AdamWTensor, kMostAdamWTensors> tensors;
    void* const* scalar = &args.operands[first_scalar_];
    AdamWScalars scalars = {scalar[0], scalar[1],
                            has_scale_ ? scalar[2] : nullptr};
    for (size_t first = 0; first < params_.size();) {
      int count = 0;
      size_t end = first;
      while (end < params_.size() && count < kMostAdamWTensors &&
             params_[end].param == params_[first].param &&
             params_[end].grad == params_[first].grad) {
        tensors[count++] = TensorOf(args, end++);
      }
      ASYRA_CUDA(UpdateByAdamW(numbers_, scalars, params_[first].param,
                               params_[first].grad, tensors.data(), count,
                               stream));
      first = end;
    }
    return absl::OkStatus();
  }

 private:
  struct Param {
    Element param, grad;
    int64_t count;
  };

  AdamWTensor TensorOf(const KernelArgs& args, size_t i) const {
    void* const* old = &args.operands[first_tensor_ + kAdamWOfParam * i];
    void* const* next = &args.results[kAdamWResults * i];
    return {old[0],  old[1],  old[2],  old[3],
            next[0], next[1], next[2], params_[i].count};
  }

  int first_tensor_, first_scalar_;
  bool has_scale_ = false;
  AdamWNumbers numbers_;
  std::vector<Param> params_;
};

// Operands as ir/multi_adamw.h has them.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMultiAdamW(
    const KernelUse& use) {
  int params = use.num_results() / kAdamWResults;
  return std::make_unique<AdamWKernel>(use, params, kAdamWShared, 0);
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareAdamW(const KernelUse& use) {
  return std::make_unique<AdamWKernel>(use, 1, 0, kAdamWOfParam);
}

bool HasLabels(const KernelUse& use) {
  return use.operand(0).size(use.operand(0).rank() - 1) > 0;
}

}  // namespace

std::vector<CudaKernelDef> TrainKernels() {
  return {Generated("cross_entropy", HasLabels, CrossEntropy),
          Generated("sgd", Always, Sgd),
          {"adamw", Always, PrepareAdamW},
          {"multi_adamw", Always, PrepareMultiAdamW}};
}

}  // namespace asyra::cuda
