#include "executor/reference.h"

#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<std::vector<Tensor>> ComputeByReference(
    const KernelUse& use, absl::Span<const Tensor> operands) {
  std::vector<Tensor> results;
  for (int i = 0; i < use.num_results(); ++i) {
    results.emplace_back(use.result(i).dtype, use.result(i).shape());
  }
  ASYRA_RETURN_IF_ERROR(use.def().reference(
      {use.def(), use.attrs(), use.global_operands(), use.global_results(),
       operands, absl::MakeSpan(results), use.mesh(), use.rank()}));
  for (int i = 0; i < use.num_results(); ++i) {
    const Type& type = use.result(i);
    if (results[i].shape() != type.shape() ||
        results[i].dtype() != type.dtype) {
      return absl::InternalError(
          fmt::format("the reference of {} computed {}{}, the type says {}{}",
                      use.def().name, ToString(results[i].dtype()),
                      ShapeToString(results[i].shape()), ToString(type.dtype),
                      ShapeToString(type.shape())));
    }
  }
  return results;
}

}  // namespace asyra
