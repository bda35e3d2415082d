// Running sums (ir/ops/softmax.cc).
#include "executor/cuda/kernels/scan.h"

#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

class ScanKernel : public CudaKernel {
 public:
  explicit ScanKernel(const KernelUse& use) {
    const Type& x = use.operand(0);
    int dim = NormalizeDim(use.attrs().Int("dim"), x.rank());
    scan_ = {.element = ElementOf(x.dtype),
             .size = x.size(dim),
             .exclusive = use.attrs().Bool("exclusive"),
             .reverse = use.attrs().Bool("reverse")};
    for (int d = 0; d < dim; ++d) scan_.outer *= x.size(d);
    for (int d = dim + 1; d < x.rank(); ++d) scan_.inner *= x.size(d);
  }
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(RunningSums(scan_, args.operands[0], args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  Scan scan_;
};

}  // namespace

std::vector<CudaKernelDef> ScanKernels() {
  return {{"cumsum", [](const KernelUse&) { return true; },
           [](const KernelUse& use) -> absl::StatusOr<std::unique_ptr<Kernel>> {
             return std::make_unique<ScanKernel>(use);
           }}};
}

}  // namespace asyra::cuda
