// Ops element by element (ir/ops/{elementwise,function,activation}.cc), one
// generated kernel each.
#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

bool Supports(const KernelUse& use) {
  std::vector<DType> dtypes;
  for (int k = 0; k < use.num_operands(); ++k) {
    dtypes.push_back(use.operand(k).dtype);
  }
  return IsElementwise(use.def().name, dtypes);
}

GeneratedUse Describe(const KernelUse& use) {
  const Type& result = use.result(0);
  Expression expression;
  Loop loop{.columns = result.shape()};
  std::vector<int> inputs;
  for (int k = 0; k < use.num_operands(); ++k) {
    inputs.push_back(expression.Operand(use.operand(k).dtype));
    loop.operands.push_back(
        {BroadcastStrides(use.operand(k).shape(), result.shape())});
  }
  expression.Store(
      expression.Apply(use.def().name, use.attrs(), result.dtype, inputs),
      result.dtype);
  loop.results.push_back({DenseStrides(result.shape())});
  return {expression, loop};
}

}  // namespace

std::vector<CudaKernelDef> ElementwiseKernels() {
  std::vector<CudaKernelDef> defs;
  for (std::string_view op : ElementwiseNames()) {
    defs.push_back(Generated(op, Supports, Describe));
  }
  return defs;
}

}  // namespace asyra::cuda
