// Lengths of the rows of a mask, checked (ir/ops/mask_lengths.h).
#include "executor/cuda/kernels/mask_lengths.h"

#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "ir/ops/mask_lengths.h"

namespace asyra::cuda {
namespace {

class MaskLengthsKernel : public CudaKernel {
 public:
  explicit MaskLengthsKernel(const KernelUse& use)
      : mask_{.element = ElementOf(use.operand(0).dtype),
              .rows = use.operand(0).size(0),
              .size = use.operand(0).size(1),
              .least = use.attrs().Int("least")},
        first_row_(use.Start(use.global_operands()[0], 0)),
        input_(use.attrs().Get<std::string>("input")) {}
  ~MaskLengthsKernel() override {
    if (results_ != nullptr) results_->Remove(number_);
  }

  void ReportTo(ProbeResults* results) override {
    results_ = results;
    number_ = results->Add(&label(), [this](const ProbeResult& found) {
      int64_t row = found.element / mask_.size;
      int64_t place = found.element % mask_.size;
      return ops::MaskFaultError(input_, first_row_ + row,
                                 {place, found.value});
    });
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(MaskLengths(mask_, args.operands[0],
                           static_cast<int32_t*>(args.results[0]), number_,
                           results_->shared(), stream));
    return absl::OkStatus();
  }

 private:
  const MaskRows mask_;
  const int64_t first_row_;
  const std::string input_;
  ProbeResults* results_ = nullptr;
  int number_ = 0;
};

}  // namespace

std::vector<CudaKernelDef> MaskLengthsKernels() {
  return {{"mask_lengths", [](const KernelUse&) { return true; },
           [](const KernelUse& use) -> absl::StatusOr<std::unique_ptr<Kernel>> {
             return std::make_unique<MaskLengthsKernel>(use);
           }}};
}

}  // namespace asyra::cuda
