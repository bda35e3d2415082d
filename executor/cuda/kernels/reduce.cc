// Reductions over any dimensions (ir/ops/reduce.cc), generated. Where results
// are too few to fill the GPU, parts of each are reduced first.
#include <algorithm>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/column_sum.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "executor/cuda/kernels/sum_squares.h"

namespace asyra::cuda {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

// Results are rows, reduced elements are columns.
Loop LoopOf(const KernelUse& use) {
  const Type& x = use.operand(0);
  std::vector<bool> is_reduced(x.rank(), false);
  for (int64_t dim : use.attrs().Get<Ints>("dims")) {
    is_reduced[NormalizeDim(dim, x.rank())] = true;
  }
  Loop loop;
  Shape strides = DenseStrides(x.shape()), of_rows, of_columns;
  for (int d = 0; d < x.rank(); ++d) {
    (is_reduced[d] ? loop.columns : loop.rows).push_back(x.size(d));
    (is_reduced[d] ? of_columns : of_rows).push_back(strides[d]);
  }
  Access result{DenseStrides(loop.rows)};
  result.strides.resize(x.rank(), 0);
  of_rows.insert(of_rows.end(), of_columns.begin(), of_columns.end());
  loop.operands = {{of_rows}};
  loop.results = {result};
  return loop;
}

// Elements of one part, if reducing in two passes pays: enough parts for all
// threads of the GPU, and enough elements for each. 1: it does not.
int64_t PartsOf(const Loop& loop) {
  constexpr int64_t kWanted = 132 * 2048 * 8, kLeast = 256;
  if (loop.columns.empty() || loop.num_columns() < 2 * kLeast) return 1;
  int64_t most =
      std::min({kWanted / std::max<int64_t>(1, loop.num_rows()),
                loop.num_columns() / kLeast, loop.columns[0], int64_t{4096}});
  // A vector of any element type stays whole.
  bool splits_innermost = loop.columns.size() == 1;
  for (int64_t parts = most; parts > 1; --parts) {
    if (loop.columns[0] % parts != 0) continue;
    if (splits_innermost && loop.columns[0] / parts % 8 != 0) continue;
    return parts;
  }
  return 1;
}

DType WideOf(DType dtype) {
  Computed type = ComputedOf(dtype);
  return type == Computed::kInt      ? DType::kI64
         : type == Computed::kDouble ? DType::kF64
                                     : DType::kF32;
}

// `divisor` 1: not a mean.
int Finish(Expression* e, int reduced, double divisor) {
  if (divisor == 1) return reduced;
  return e->Formula("$0 / $1", {reduced, e->Number(divisor, reduced)});
}

int Square(Expression* e, int value) {
  return e->Formula(e->nodes()[value].type == Computed::kInt
                        ? "int64(uint64($0) * uint64($0))"
                        : "$0 * $0",
                    {value});
}

class PartsKernel : public CudaKernel {
 public:
  absl::Status Prepare(const KernelUse& use, const Loop& loop, int64_t parts,
                       ReductionKind kind, double divisor) {
    DType dtype = use.operand(0).dtype, wide = WideOf(dtype);
    int64_t rows = loop.num_rows();
    bytes_ = parts * rows * SizeOf(wide);
    ASYRA_ASSIGN_OR_RETURN(first_,
                           First(loop, parts, dtype, wide, kind,
                                 use.def().name == "reduce_sum_square"));
    Expression e;
    int reduced = e.Reduce(kind, e.Operand(wide));
    e.Store(Finish(&e, reduced, divisor), use.result(0).dtype);
    Loop second{.rows = {rows}, .columns = {parts}};
    second.operands = {{{1, rows}}};
    second.results = {{{1, 0}}};
    ASYRA_ASSIGN_OR_RETURN(second_, GeneratedKernel::Create(e, second));
    return absl::OkStatus();
  }
  int64_t workspace_bytes() const override { return bytes_; }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    void* parts[] = {args.workspace};
    ASYRA_RETURN_IF_ERROR(first_.Enqueue(args.operands, parts, stream));
    return second_.Enqueue(parts, args.results, stream);
  }

 private:
  // [parts, rows] in the workspace.
  static absl::StatusOr<GeneratedKernel> First(const Loop& loop, int64_t parts,
                                               DType dtype, DType wide,
                                               ReductionKind kind,
                                               bool of_squares) {
    Loop first = loop;
    size_t column = loop.rows.size();
    int64_t each = loop.columns[0] / parts;
    Shape& strides = first.operands[0].strides;
    int64_t step = strides[column] * each;
    strides.insert(strides.begin(), step);
    first.rows.insert(first.rows.begin(), parts);
    first.columns[0] = each;
    Access result{DenseStrides(first.rows)};
    result.strides.resize(strides.size(), 0);
    first.results = {result};
    Expression e;
    int value = e.Operand(dtype);
    e.Store(e.Reduce(kind, of_squares ? Square(&e, value) : value), wide);
    return GeneratedKernel::Create(e, first);
  }

  int64_t bytes_ = 0;
  GeneratedKernel first_, second_;
};

// Sums over the rows of a matrix.
class ColumnSumKernel : public CudaKernel {
 public:
  static std::optional<ColumnSum> PlanOf(const KernelUse& use,
                                         const Loop& loop) {
    if (use.def().name != "reduce_sum" || loop.rows.size() != 1 ||
        loop.columns.size() != 1 ||
        loop.operands[0].strides != Shape{1, loop.rows[0]}) {
      return std::nullopt;
    }
    ColumnSum plan{.element = ElementOf(use.operand(0).dtype),
                   .result = ElementOf(use.result(0).dtype),
                   .rows = loop.columns[0],
                   .columns = loop.rows[0]};
    if (!PlanColumnSum(&plan)) return std::nullopt;
    return plan;
  }

  explicit ColumnSumKernel(const ColumnSum& plan) : plan_(plan) {}
  int64_t workspace_bytes() const override { return WorkspaceBytes(plan_); }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(SumColumns(plan_, args.operands[0], args.workspace,
                          args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  ColumnSum plan_;
};

class SumSquaresKernel : public CudaKernel {
 public:
  explicit SumSquaresKernel(const KernelUse& use) {
    for (int i = 0; i < use.num_operands(); ++i) {
      const Type& tensor = use.operand(i);
      tensors_.push_back(
          {nullptr, ElementOf(tensor.dtype), tensor.num_elements()});
    }
  }
  int64_t workspace_bytes() const override {
    return SumSquaresBytes(tensors_.data(), static_cast<int>(tensors_.size()));
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].data = args.operands[i];
    }
    ASYRA_CUDA(SumSquares(tensors_.data(), static_cast<int>(tensors_.size()),
                          args.workspace, args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  std::vector<SquaredTensor> tensors_;
};

Prepared PrepareSumSquares(const KernelUse& use) {
  return std::make_unique<SumSquaresKernel>(use);
}

// Sums of a few values that are far apart, as chunks that other ranks have sent
// are: element by element, an operand for each.
class FewKernel : public CudaKernel {
 public:
  static constexpr int64_t kMost = 16;

  static bool Fits(const KernelUse& use, const Loop& loop) {
    const Shape& strides = loop.operands[0].strides;
    return loop.rows.size() == 1 && loop.columns.size() == 1 &&
           loop.columns[0] > 0 && loop.columns[0] <= kMost && strides[0] == 1 &&
           strides[1] >= loop.rows[0] &&
           strides[1] * SizeOf(use.operand(0).dtype) % 16 == 0;
  }

  absl::Status Prepare(const KernelUse& use, const Loop& loop, double divisor) {
    DType dtype = use.operand(0).dtype;
    step_bytes_ = loop.operands[0].strides[1] * SizeOf(dtype);
    count_ = loop.columns[0];
    Loop each{.rows = {}, .columns = {loop.rows[0]}};
    Expression e;
    int sum = e.SumOfOperands(dtype, count_);
    each.operands.assign(count_, {{1}});
    e.Store(Finish(&e, sum, divisor), use.result(0).dtype);
    each.results = {{{1}}};
    ASYRA_ASSIGN_OR_RETURN(kernel_, GeneratedKernel::Create(e, each));
    return absl::OkStatus();
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    absl::InlinedVector<void*, kMost> values;
    for (int64_t i = 0; i < count_; ++i) {
      values.push_back(static_cast<std::byte*>(args.operands[0]) +
                       i * step_bytes_);
    }
    return kernel_.Enqueue(values, args.results, stream);
  }

 private:
  int64_t count_ = 0, step_bytes_ = 0;
  GeneratedKernel kernel_;
};

// Divides by the global count, so that the means of shards sum up to the mean.
double DivisorOf(const KernelUse& use) {
  if (use.def().name != "reduce_mean") return 1;
  const Type& x = use.global_operands()[0];
  double count = 1;
  for (int64_t dim : use.attrs().Get<Ints>("dims")) {
    count *= static_cast<double>(x.size(NormalizeDim(dim, x.rank())));
  }
  return count;
}

template <ReductionKind kind>
GeneratedUse Reduce(const KernelUse& use) {
  Expression e;
  int value = e.Operand(use.operand(0).dtype);
  if (use.def().name == "reduce_sum_square") value = Square(&e, value);
  int reduced = e.Reduce(kind, value);
  e.Store(Finish(&e, reduced, DivisorOf(use)), use.result(0).dtype);
  return {e, LoopOf(use)};
}

template <ReductionKind kind>
CudaKernelDef ReduceKernel(std::string_view op) {
  CudaKernelDef def = Generated(
      op, [](const KernelUse&) { return true; }, Reduce<kind>);
  def.prepare = [whole = def.prepare](const KernelUse& use) -> Prepared {
    Loop loop = Collapsed(LoopOf(use));
    if (kind == ReductionKind::kSum && use.def().name != "reduce_sum_square" &&
        FewKernel::Fits(use, loop)) {
      auto kernel = std::make_unique<FewKernel>();
      ASYRA_RETURN_IF_ERROR(kernel->Prepare(use, loop, DivisorOf(use)));
      return kernel;
    }
    std::optional<ColumnSum> columns = ColumnSumKernel::PlanOf(use, loop);
    if (columns.has_value()) {
      return std::make_unique<ColumnSumKernel>(*columns);
    }
    int64_t parts = PartsOf(loop);
    if (parts == 1) return whole(use);
    auto kernel = std::make_unique<PartsKernel>();
    ASYRA_RETURN_IF_ERROR(
        kernel->Prepare(use, loop, parts, kind, DivisorOf(use)));
    return kernel;
  };
  return def;
}

GeneratedUse LogSumExp(const KernelUse& use) {
  Expression e;
  int x = e.Operand(use.operand(0).dtype);
  int largest = e.Reduce(ReductionKind::kMax, x);
  // All -inf, or a +inf.
  largest = e.Formula("isinf($0) ? $1 : $0", {largest, e.Number(0, largest)});
  int sum =
      e.Reduce(ReductionKind::kSum, e.Formula("exp($0 - $1)", {x, largest}));
  e.Store(e.Formula("log($0) + $1", {sum, largest}), use.result(0).dtype);
  return {e, LoopOf(use)};
}

}  // namespace

std::vector<CudaKernelDef> ReduceKernels() {
  return {
      ReduceKernel<ReductionKind::kSum>("reduce_sum"),
      ReduceKernel<ReductionKind::kSum>("reduce_mean"),
      ReduceKernel<ReductionKind::kSum>("reduce_sum_square"),
      ReduceKernel<ReductionKind::kProduct>("reduce_prod"),
      ReduceKernel<ReductionKind::kMax>("reduce_max"),
      ReduceKernel<ReductionKind::kMin>("reduce_min"),
      {"sum_squares", [](const KernelUse&) { return true; }, PrepareSumSquares},
      Generated(
          "log_sum_exp", [](const KernelUse&) { return true; }, LogSumExp)};
}

}  // namespace asyra::cuda
