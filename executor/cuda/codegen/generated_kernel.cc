#include "executor/cuda/codegen/generated_kernel.h"

#include "absl/container/inlined_vector.h"
#include "executor/cuda/codegen/nvrtc_module.h"

namespace asyra::cuda {
namespace {

// The largest grid that CUDA launches.
constexpr int64_t kMostBlocks = INT32_MAX;

class OneGeneratedKernel : public CudaKernel {
 public:
  OneGeneratedKernel(GeneratedKernel kernel, std::vector<int> operands)
      : kernel_(kernel), operands_(std::move(operands)) {}
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    if (operands_.empty()) {
      return kernel_.Enqueue(args.operands, args.results, stream);
    }
    absl::InlinedVector<void*, 8> operands;
    for (int operand : operands_) operands.push_back(args.operands[operand]);
    return kernel_.Enqueue(operands, args.results, stream);
  }

 private:
  GeneratedKernel kernel_;
  std::vector<int> operands_;
};

}  // namespace

absl::StatusOr<GeneratedKernel> GeneratedKernel::Create(
    const Expression& expression, const Loop& loop) {
  GeneratedKernel kernel;
  GeneratedSource source = Generate(expression, loop);
  if (source.blocks > kMostBlocks) {
    return Unimplemented("a kernel of {} blocks, CUDA launches {}",
                         source.blocks, kMostBlocks);
  }
  kernel.blocks_ = static_cast<unsigned>(source.blocks);
  kernel.threads_ = source.threads;
  if (source.blocks == 0) return kernel;
  ASYRA_ASSIGN_OR_RETURN(
      kernel.kernel_,
      CompileKernel(source.text, kGeneratedName,
                    {.approximate_division = source.approximate_division}));
  return kernel;
}

absl::Status GeneratedKernel::Enqueue(absl::Span<void* const> operands,
                                      absl::Span<void* const> results,
                                      cudaStream_t stream) const {
  if (blocks_ == 0) return absl::OkStatus();
  absl::InlinedVector<void*, 8> addresses(operands.begin(), operands.end());
  addresses.insert(addresses.end(), results.begin(), results.end());
  absl::InlinedVector<void*, 8> arguments;
  for (void*& address : addresses) {
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0) {
      return absl::FailedPreconditionError(fmt::format(
          "a value is at {}, which is not a multiple of 16", address));
    }
    arguments.push_back(&address);
  }
  ASYRA_CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), blocks_,
                              threads_, arguments.data(), 0, stream));
  return absl::OkStatus();
}

CudaKernelDef Generated(std::string_view op,
                        bool (*supports)(const KernelUse& use),
                        GeneratedUse (*describe)(const KernelUse& use)) {
  auto prepare =
      [describe](
          const KernelUse& use) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    GeneratedUse generated = describe(use);
    ASYRA_ASSIGN_OR_RETURN(
        GeneratedKernel kernel,
        GeneratedKernel::Create(generated.expression, generated.loop));
    return std::make_unique<OneGeneratedKernel>(kernel, generated.operands);
  };
  return {op, supports, prepare, describe};
}

}  // namespace asyra::cuda
