// Lengths of the rows of a mask, checked (ir/ops/mask_lengths.h).
#include "ir/ops/mask_lengths.h"

#include "executor/cpu/element.h"
#include "executor/cpu/kernel_list.h"

namespace asyra::cpu {
namespace {

class MaskLengthsKernel : public CpuKernel {
 public:
  explicit MaskLengthsKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype),
        rows_(use.operand(0).size(0)),
        size_(use.operand(0).size(1)),
        first_row_(use.Start(use.global_operands()[0], 0)),
        least_(use.attrs().Int("least")),
        input_(use.attrs().Get<std::string>("input")) {}

  absl::Status Run(const KernelArgs& args) override {
    auto* lengths = static_cast<int32_t*>(args.results[0]);
    for (int64_t row = 0; row < rows_; ++row) {
      auto number = [&](int64_t i) {
        double value = 0;
        Load(dtype_, ElementAt(dtype_, args.operands[0], row * size_ + i), 1,
             &value);
        return value;
      };
      int64_t length = 0;
      std::optional<ops::MaskFault> fault =
          ops::FindMaskFault(size_, least_, number, &length);
      if (fault.has_value()) {
        return ops::MaskFaultError(input_, first_row_ + row, *fault);
      }
      lengths[row] = static_cast<int32_t>(length);
    }
    return absl::OkStatus();
  }

 private:
  const DType dtype_;
  const int64_t rows_, size_, first_row_, least_;
  const std::string input_;
};

}  // namespace

std::vector<CpuKernelDef> MaskLengthsKernels() {
  return {{"mask_lengths", [](const KernelUse&) { return true; },
           [](const KernelUse& use) -> absl::StatusOr<std::unique_ptr<Kernel>> {
             return std::make_unique<MaskLengthsKernel>(use);
           }}};
}

}  // namespace asyra::cpu
