#include "executor/cpu/reference_kernel.h"

#include <cstring>

#include "executor/cpu/cpu_kernel.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class ReferenceKernel : public CpuKernel {
 public:
  explicit ReferenceKernel(const KernelUse& use) : use_(use) {}
  bool is_native() const override { return false; }

  absl::Status Run(const KernelArgs& args) override {
    std::vector<Tensor> operands, results;
    for (int i = 0; i < use_.num_operands(); ++i) {
      const Type& type = use_.operand(i);
      operands.push_back(Tensor::View(
          type.dtype, type.shape(),
          static_cast<const std::byte*>(args.operands[i]), nullptr));
    }
    for (int i = 0; i < use_.num_results(); ++i) {
      results.emplace_back(use_.result(i).dtype, use_.result(i).shape());
    }
    ASYRA_RETURN_IF_ERROR(use_.def().reference(
        {use_.def(), use_.attrs(), use_.global_operands(),
         use_.global_results(), operands, absl::MakeSpan(results), use_.mesh(),
         use_.rank()}));
    for (int i = 0; i < use_.num_results(); ++i) {
      const Type& type = use_.result(i);
      if (results[i].shape() != type.shape() ||
          results[i].dtype() != type.dtype) {
        return absl::InternalError(
            fmt::format("the reference of {} computed {}{}, the type says {}{}",
                        use_.def().name, ToString(results[i].dtype()),
                        ShapeToString(results[i].shape()), ToString(type.dtype),
                        ShapeToString(type.shape())));
      }
      if (results[i].bytes() == 0) continue;
      std::memcpy(args.results[i], results[i].data(), results[i].bytes());
    }
    return absl::OkStatus();
  }

 private:
  KernelUse use_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareReferenceKernel(
    const KernelUse& use) {
  if (use.def().reference == nullptr) {
    return Unimplemented("{} has no kernel and no reference on the cpu",
                         use.def().name);
  }
  return std::make_unique<ReferenceKernel>(use);
}

}  // namespace asyra
