// Reductions (ir/ops/reduce.cc), accumulated in double or 64-bit integers.
#include <cmath>

#include "executor/cpu/convert.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/number.h"
#include "executor/cpu/strided.h"
#include "executor/cpu/workspace.h"
#include "ir/ops/integers.h"

namespace asyra::cpu {
namespace {

enum class ReductionKind : uint8_t { kSum, kProduct, kMax, kMin, kSumSquare };

template <ReductionKind kind, typename T>
T First() {
  using Limits = std::numeric_limits<T>;
  constexpr bool kIsFloat = std::is_floating_point_v<T>;
  if (kind == ReductionKind::kSum || kind == ReductionKind::kSumSquare)
    return 0;
  if (kind == ReductionKind::kProduct) return 1;
  if (kind == ReductionKind::kMax)
    return kIsFloat ? -Limits::infinity() : Limits::min();
  return kIsFloat ? Limits::infinity() : Limits::max();
}

template <ReductionKind kind, typename T>
T Combine(T a, T b) {
  if constexpr (kind == ReductionKind::kMax) return ops::Maximum(a, b);
  if constexpr (kind == ReductionKind::kMin) return ops::Minimum(a, b);
  if constexpr (kind == ReductionKind::kSumSquare) {
    return ops::Plus(a, ops::Times(b, b));
  }
  if constexpr (std::is_integral_v<T>) {
    auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(kind == ReductionKind::kSum ? x + y : x * y);
  } else {
    return kind == ReductionKind::kSum ? a + b : a * b;
  }
}

// Elements are walked in the order of memory; each goes to its result, which
// is kept wide in the workspace until the end.
template <typename N, ReductionKind kind>
class ReduceKernel : public CpuKernel {
 public:
  ReduceKernel(const KernelUse& use, double divisor)
      : dtype_(use.result(0).dtype),
        results_(use.result(0).num_elements()),
        divisor_(divisor) {
    Shape shape = use.operand(0).shape(), kept = shape;
    for (int64_t dim : use.attrs().template Get<Ints>("dims")) {
      kept[NormalizeDim(dim, use.operand(0).rank())] = 1;
    }
    loop_ = StridedLoop<2>(
        shape, {BroadcastStrides(shape, shape), BroadcastStrides(kept, shape)});
  }
  int64_t workspace_bytes() const override {
    return results_ * static_cast<int64_t>(sizeof(Wide));
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* in = static_cast<const typename N::Stored*>(args.operands[0]);
    Wide* wide = static_cast<Wide*>(args.workspace);
    std::fill_n(wide, results_, First<kind, Wide>());
    loop_.ForEachRun([&](const std::array<int64_t, 2>& at) {
      const auto* from = in + at[0];
      Wide* to = wide + at[1];
      if (loop_.step(1) == 0) {
        Wide reduced = *to;
        for (int64_t i = 0; i < loop_.run(); ++i) {
          reduced = Combine<kind>(reduced, static_cast<Wide>(N::Load(from[i])));
        }
        *to = reduced;
        return;
      }
      for (int64_t i = 0; i < loop_.run(); ++i) {
        to[i] = Combine<kind>(to[i], static_cast<Wide>(N::Load(from[i])));
      }
    });
    if (divisor_ != 1) {
      for (int64_t i = 0; i < results_; ++i) {
        wide[i] = static_cast<Wide>(static_cast<double>(wide[i]) / divisor_);
      }
    }
    Store(dtype_, wide, results_, args.results[0]);
    return absl::OkStatus();
  }

 private:
  using Wide =
      std::conditional_t<std::is_floating_point_v<typename N::Computed>, double,
                         int64_t>;
  DType dtype_;
  int64_t results_;
  double divisor_;
  StridedLoop<2> loop_;
};

// Computes in double, in two rounds: the largest element of each result, then
// the sum of the terms relative to it.
template <typename N>
class LogSumExpKernel : public CpuKernel {
 public:
  explicit LogSumExpKernel(const KernelUse& use)
      : dtype_(use.result(0).dtype), results_(use.result(0).num_elements()) {
    Shape shape = use.operand(0).shape(), kept = shape;
    for (int64_t dim : use.attrs().template Get<Ints>("dims")) {
      kept[NormalizeDim(dim, use.operand(0).rank())] = 1;
    }
    loop_ = StridedLoop<2>(
        shape, {BroadcastStrides(shape, shape), BroadcastStrides(kept, shape)});
    most_at_ = layout_.Add(results_ * static_cast<int64_t>(sizeof(double)));
    sum_at_ = layout_.Add(results_ * static_cast<int64_t>(sizeof(double)));
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    const auto* in = static_cast<const typename N::Stored*>(args.operands[0]);
    auto* most = WorkspaceAt<double>(args.workspace, most_at_);
    auto* sum = WorkspaceAt<double>(args.workspace, sum_at_);
    std::fill_n(most, results_, -std::numeric_limits<double>::infinity());
    std::fill_n(sum, results_, 0.0);
    ForEach([&](int64_t from, int64_t to) {
      most[to] = std::max(most[to], static_cast<double>(N::Load(in[from])));
    });
    for (int64_t i = 0; i < results_; ++i) {
      if (std::isinf(most[i])) most[i] = 0;  // all -inf, or a +inf
    }
    ForEach([&](int64_t from, int64_t to) {
      sum[to] += std::exp(static_cast<double>(N::Load(in[from])) - most[to]);
    });
    for (int64_t i = 0; i < results_; ++i) sum[i] = std::log(sum[i]) + most[i];
    Store(dtype_, sum, results_, args.results[0]);
    return absl::OkStatus();
  }

 private:
  // Calls visit(element, its result).
  template <typename Visit>
  void ForEach(Visit visit) const {
    loop_.ForEachRun([&](const std::array<int64_t, 2>& at) {
      for (int64_t i = 0; i < loop_.run(); ++i) {
        visit(at[0] + i * loop_.step(0), at[1] + i * loop_.step(1));
      }
    });
  }

  DType dtype_;
  int64_t results_;
  StridedLoop<2> loop_;
  WorkspaceLayout layout_;
  int64_t most_at_ = 0, sum_at_ = 0;
};

// Computes in double.
class SumSquaresKernel : public CpuKernel {
 public:
  explicit SumSquaresKernel(const KernelUse& use)
      : result_(use.result(0).dtype) {
    for (int i = 0; i < use.num_operands(); ++i) {
      tensors_.push_back(use.operand(i));
    }
  }

  absl::Status Run(const KernelArgs& args) override {
    double sum = 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      WithNumber(tensors_[i].dtype, [&](auto number) {
        using N = decltype(number);
        const auto* from =
            static_cast<const typename N::Stored*>(args.operands[i]);
        for (int64_t k = 0; k < tensors_[i].num_elements(); ++k) {
          auto x = static_cast<double>(N::Load(from[k]));
          sum += x * x;
        }
      });
    }
    Store(result_, &sum, 1, args.results[0]);
    return absl::OkStatus();
  }

 private:
  DType result_;
  std::vector<Type> tensors_;  // local
};

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

Prepared PrepareSumSquares(const KernelUse& use) {
  return std::make_unique<SumSquaresKernel>(use);
}

Prepared PrepareLogSumExp(const KernelUse& use) {
  return WithNumber(use.operand(0).dtype, [&](auto number) -> Prepared {
    return std::make_unique<LogSumExpKernel<decltype(number)>>(use);
  });
}

template <ReductionKind kind>
Prepared MakeReduce(const KernelUse& use, double divisor) {
  return WithNumber(use.operand(0).dtype, [&](auto number) -> Prepared {
    return std::make_unique<ReduceKernel<decltype(number), kind>>(use, divisor);
  });
}

template <ReductionKind kind>
Prepared PrepareReduce(const KernelUse& use) {
  return MakeReduce<kind>(use, 1);
}

// Divides by the global count, so that the means of shards sum up to the mean.
Prepared PrepareMean(const KernelUse& use) {
  const Type& x = use.global_operands()[0];
  double count = 1;
  for (int64_t dim : use.attrs().Get<Ints>("dims")) {
    count *= static_cast<double>(x.size(NormalizeDim(dim, x.rank())));
  }
  return MakeReduce<ReductionKind::kSum>(use, count);
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CpuKernelDef> ReduceKernels() {
  return {
      {"reduce_sum", Always, PrepareReduce<ReductionKind::kSum>},
      {"reduce_mean", Always, PrepareMean},
      {"reduce_prod", Always, PrepareReduce<ReductionKind::kProduct>},
      {"reduce_max", Always, PrepareReduce<ReductionKind::kMax>},
      {"reduce_min", Always, PrepareReduce<ReductionKind::kMin>},
      {"reduce_sum_square", Always, PrepareReduce<ReductionKind::kSumSquare>},
      {"sum_squares", Always, PrepareSumSquares},
      {"log_sum_exp", Always, PrepareLogSumExp}};
}

}  // namespace asyra::cpu
