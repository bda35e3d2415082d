// Rotary position embedding (ir/ops/rotary.cc).
#include "executor/cuda/kernels/rotary.h"

#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

class RotaryKernel : public CudaKernel {
 public:
  explicit RotaryKernel(const KernelUse& use) {
    const Type &x = use.operand(0), &table = use.operand(1);
    bool per_batch = table.rank() == 3 && table.size(0) > 1;
    rotary_ = {.element = ElementOf(x.dtype),
               .rows = x.size(0) * x.size(1),
               .heads = x.size(2),
               .size = x.size(3),
               .half = table.size(table.rank() - 1),
               .angles = per_batch ? x.size(0) * x.size(1) : x.size(1),
               .interleaved = use.attrs().Bool("interleaved")};
  }
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(Rotate(rotary_, args.operands[0], args.operands[1],
                      args.operands[2], args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  Rotary rotary_;
};

}  // namespace

std::vector<CudaKernelDef> RotaryKernels() {
  return {{"rotary", [](const KernelUse&) { return true; },
           [](const KernelUse& use) -> absl::StatusOr<std::unique_ptr<Kernel>> {
             return std::make_unique<RotaryKernel>(use);
           }}};
}

}  // namespace asyra::cuda
