// Ops that compute row by row (ir/ops/{softmax,norm}.cc), generated: a row is
// read and written once where it fits in registers.
#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

bool IsFloatUse(const KernelUse& use) { return IsFloat(use.operand(0).dtype); }

// Rows of a dense value along `dim`.
Loop AlongDim(const Shape& shape, int dim, Access* access) {
  Loop loop;
  Shape strides = DenseStrides(shape);
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (d == dim) continue;
    loop.rows.push_back(shape[d]);
    access->strides.push_back(strides[d]);
  }
  loop.columns.push_back(shape[dim]);
  access->strides.push_back(strides[dim]);
  return loop;
}

template <bool log>
GeneratedUse Softmax(const KernelUse& use) {
  const Type& x = use.operand(0);
  Access access;
  Loop loop = AlongDim(x.shape(),
                       NormalizeDim(use.attrs().Int("dim"), x.rank()), &access);
  loop.operands = loop.results = {access};
  Expression e;
  int value = e.Operand(x.dtype);
  int shifted =
      e.Formula("$0 - $1", {value, e.Reduce(ReductionKind::kMax, value)});
  int power = e.Formula("exp($0)", {shifted});
  int sum = e.Reduce(ReductionKind::kSum, power);
  e.Store(log ? e.Formula("$0 - $1", {shifted, e.Formula("log($0)", {sum})})
              : e.Formula("$0 * $1", {power, e.Formula("1 / $0", {sum})}),
          x.dtype);
  return {e, loop};
}

template <bool centered>
GeneratedUse Norm(const KernelUse& use) {
  const Type& x = use.operand(0);
  Access access, of_row;
  Loop loop = AlongDim(x.shape(), x.rank() - 1, &access);
  of_row.strides.assign(access.strides.size(), 0);
  of_row.strides.back() = 1;
  Expression e;
  int value = e.Operand(x.dtype);
  int scale = e.Operand(x.dtype);
  loop.operands = {access, of_row};
  loop.results = {access};
  int size = e.Number(static_cast<double>(x.size(x.rank() - 1)), value);
  if (centered) {
    int mean =
        e.Formula("$0 / $1", {e.Reduce(ReductionKind::kSum, value), size});
    value = e.Formula("$0 - $1", {value, mean});
  }
  int square = e.Reduce(ReductionKind::kSum, e.Formula("$0 * $0", {value}));
  int eps = e.Number(use.attrs().Float("eps"), value);
  int inverse = e.Formula("rsqrt($0 / $1 + $2)", {square, size, eps});
  int result = e.Formula("$0 * $1 * $2", {value, inverse, scale});
  if (use.num_operands() > 2) {
    result = e.Formula("$0 + $1", {result, e.Operand(x.dtype)});
    loop.operands.push_back(of_row);
  }
  e.Store(result, x.dtype);
  return {e, loop};
}

}  // namespace

std::vector<CudaKernelDef> RowKernels() {
  return {Generated("softmax", IsFloatUse, Softmax<false>),
          Generated("log_softmax", IsFloatUse, Softmax<true>),
          Generated("rms_norm", IsFloatUse, Norm<false>),
          Generated("layer_norm", IsFloatUse, Norm<true>)};
}

}  // namespace asyra::cuda
