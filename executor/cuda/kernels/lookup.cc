// Rows found by index: ir/ops/{embed,gather}.cc.
#include "executor/cuda/kernels/lookup.h"

#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "ir/ops/indexing.h"

namespace asyra::cuda {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

class LookupKernel : public CudaKernel {
 public:
  explicit LookupKernel(const Lookup& lookup) : lookup_(lookup) {}
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_CUDA(LookUp(lookup_, args.operands[0], args.operands[1],
                      args.results[0], stream));
    return absl::OkStatus();
  }

 private:
  Lookup lookup_;
};

Lookup Along(const KernelUse& use, int dim) {
  const Type& table = use.operand(0);
  Lookup lookup{.index = ElementOf(use.operand(1).dtype),
                .indices = use.operand(1).num_elements(),
                .size = table.size(dim),
                .row_bytes = SizeOf(table.dtype),
                .total = table.size(dim)};
  for (int d = 0; d < dim; ++d) lookup.outer *= table.size(d);
  for (int d = dim + 1; d < table.rank(); ++d) {
    lookup.row_bytes *= table.size(d);
  }
  return lookup;
}

Prepared PrepareEmbedding(const KernelUse& use) {
  Lookup lookup = Along(use, 0);
  const Type& table = use.global_operands()[0];
  lookup.total = ops::IdsOf(use.attrs().Int("rows"), table.size(0));
  lookup.start = use.Start(table, 0);
  return std::make_unique<LookupKernel>(lookup);
}

Prepared PrepareGather(const KernelUse& use) {
  return std::make_unique<LookupKernel>(
      Along(use, NormalizeDim(use.attrs().Int("dim"), use.operand(0).rank())));
}

bool Always(const KernelUse&) { return true; }

}  // namespace

std::vector<CudaKernelDef> LookupKernels() {
  return {{"embedding", Always, PrepareEmbedding},
          {"gather", Always, PrepareGather}};
}

}  // namespace asyra::cuda
