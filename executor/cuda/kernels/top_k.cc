// The largest and smallest elements along a dimension (ir/ops/topk.cc), and
// the experts of tokens (ir/ops/moe_router.cc).
#include "executor/cuda/kernels/top_k.h"

#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

class TopKKernel : public CudaKernel {
 public:
  TopKKernel(const KernelUse& use, int64_t count, bool largest, bool last)
      : gives_values_(use.num_results() == 2) {
    const Type& x = use.operand(0);
    int dim = NormalizeDim(use.attrs().Int("dim"), x.rank());
    top_k_ = {.element = ElementOf(x.dtype),
              .size = x.size(dim),
              .count = count,
              .largest = largest,
              .last = last};
    for (int d = 0; d < dim; ++d) top_k_.outer *= x.size(d);
    for (int d = dim + 1; d < x.rank(); ++d) top_k_.inner *= x.size(d);
  }
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(FindTopK(
        top_k_, args.operands[0], gives_values_ ? args.results[0] : nullptr,
        static_cast<int64_t*>(args.results[gives_values_ ? 1 : 0]), stream));
    return absl::OkStatus();
  }

 private:
  TopK top_k_;
  bool gives_values_;
};

class RouterKernel : public CudaKernel {
 public:
  explicit RouterKernel(const KernelUse& use) {
    const Type& logits = use.operand(0);
    int64_t experts = logits.size(logits.rank() - 1);
    router_ = {.element = ElementOf(logits.dtype),
               .tokens = logits.num_elements() / experts,
               .experts = experts,
               .k = use.attrs().Int("k"),
               .softmax = use.attrs().Get<std::string>("scoring") == "softmax",
               .normalize = use.attrs().Bool("normalize")};
  }
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(ChooseExperts(router_, args.operands[0], args.results[0],
                             static_cast<int64_t*>(args.results[1]), stream));
    return absl::OkStatus();
  }

 private:
  Router router_;
};

Prepared PrepareTopK(const KernelUse& use) {
  return std::make_unique<TopKKernel>(use, use.attrs().Int("k"),
                                      use.attrs().Bool("largest"), false);
}

template <bool largest>
Prepared PrepareArg(const KernelUse& use) {
  return std::make_unique<TopKKernel>(use, 1, largest,
                                      use.attrs().Bool("last"));
}

Prepared PrepareRouter(const KernelUse& use) {
  return std::make_unique<RouterKernel>(use);
}

bool Always(const KernelUse&) { return true; }

bool HasRoom(const KernelUse& use) {
  const Type& logits = use.operand(0);
  return logits.size(logits.rank() - 1) + use.attrs().Int("k") <=
         kMostRouterNumbers;
}

}  // namespace

std::vector<CudaKernelDef> TopKKernels() {
  return {{"top_k", Always, PrepareTopK},
          {"arg_max", Always, PrepareArg<true>},
          {"arg_min", Always, PrepareArg<false>},
          {"moe_router", HasRoom, PrepareRouter}};
}

}  // namespace asyra::cuda
