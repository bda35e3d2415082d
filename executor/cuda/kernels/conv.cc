// Convolutions (ir/ops/conv.cc) on cuDNN, else by our own kernel.
#include "executor/cuda/kernels/conv.h"

#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

int64_t Entry(const KernelUse& use, std::string_view name, size_t i,
              int64_t otherwise) {
  const Ints& list = use.attrs().Get<Ints>(name);
  return list.empty() ? otherwise : list[i];
}

ConvProblem ProblemOf(const KernelUse& use) {
  const Type &x = use.operand(0), &w = use.operand(1), &y = use.result(0);
  ConvProblem problem = {.element = ElementOf(x.dtype),
                         .batch = x.size(0),
                         .groups = x.size(1) / w.size(1),
                         .per_group = w.size(1),
                         .outputs = w.size(0),
                         .spatial = x.rank() - 2};
  auto spatial = static_cast<size_t>(problem.spatial);
  for (size_t i = 0; i < spatial; ++i) {
    int dim = static_cast<int>(i) + 2;
    problem.windows[i] = {.size = x.size(dim),
                          .taps = w.size(dim),
                          .results = y.size(dim),
                          .stride = Entry(use, "strides", i, 1),
                          .before = Entry(use, "pads", i, 0),
                          .after = Entry(use, "pads", spatial + i, 0),
                          .dilation = Entry(use, "dilations", i, 1),
                          .spacing = Entry(use, "input_dilations", i, 1)};
  }
  return problem;
}

class ConvKernel : public CudaKernel {
 public:
  explicit ConvKernel(const ConvProblem& problem) : problem_(problem) {}

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(Conv(problem_, args.operands[0], args.operands[1],
                    args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  ConvProblem problem_;
};

bool Supports(const KernelUse& use) {
  return use.operand(0).rank() - 2 <= kMaxSpatial && use.operand(0).size(1) > 0;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  ConvProblem problem = ProblemOf(use);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = PrepareCudnnConv(problem);
  if (!absl::IsUnimplemented(kernel.status())) return kernel;
  return std::make_unique<ConvKernel>(problem);
}

}  // namespace

std::vector<CudaKernelDef> ConvKernels() {
  return {{"conv", Supports, Prepare}};
}

}  // namespace asyra::cuda
