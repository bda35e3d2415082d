#include "executor/cpu/reference_kernel.h"

#include <cstring>

#include "executor/cpu/cpu_kernel.h"
#include "executor/reference.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

void CopyResults(const std::vector<Tensor>& results, const KernelArgs& args) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].bytes() == 0) continue;
    std::memcpy(args.results[i], results[i].data(), results[i].bytes());
  }
}

class ReferenceKernel : public CpuKernel {
 public:
  explicit ReferenceKernel(const KernelUse& use) : use_(use) {}
  bool is_native() const override { return false; }

  absl::Status Run(const KernelArgs& args) override {
    std::vector<Tensor> operands;
    for (int i = 0; i < use_.num_operands(); ++i) {
      const Type& type = use_.operand(i);
      operands.push_back(Tensor::View(
          type.dtype, type.shape(),
          static_cast<const std::byte*>(args.operands[i]), nullptr));
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                           ComputeByReference(use_, operands));
    CopyResults(results, args);
    return absl::OkStatus();
  }

 private:
  KernelUse use_;
};

// An op without operands is computed when it is prepared.
class KnownKernel : public CpuKernel {
 public:
  explicit KnownKernel(std::vector<Tensor> results)
      : results_(std::move(results)) {}
  absl::Status Run(const KernelArgs& args) override {
    CopyResults(results_, args);
    return absl::OkStatus();
  }

 private:
  std::vector<Tensor> results_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareReferenceKernel(
    const KernelUse& use) {
  ASYRA_RETURN_IF_ERROR(use.RequireDense());
  if (use.def().reference == nullptr) {
    return Unimplemented("{} has no kernel and no reference on the cpu",
                         use.def().name);
  }
  if (use.num_operands() == 0 && use.def().is_pure) {
    ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                           ComputeByReference(use, {}));
    return std::make_unique<KnownKernel>(std::move(results));
  }
  return std::make_unique<ReferenceKernel>(use);
}

}  // namespace asyra
