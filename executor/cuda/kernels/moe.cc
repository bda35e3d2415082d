// Tokens in the slots of their experts, and back (ir/ops/moe.cc).
#include "executor/cuda/kernels/moe.h"

#include "executor/cuda/device/element_of.h"
#include "executor/cuda/kernels/kernel_list.h"

namespace asyra::cuda {
namespace {

// Buffers are the operand or result of the local type `local`; operand 1 holds
// the choices.
Routing RoutingOf(const KernelUse& use, const Type& global, const Type& local,
                  int64_t capacity) {
  const Type& choices = use.operand(1);
  int experts = global.rank() - 3;
  int64_t k = choices.size(choices.rank() - 1);
  return {.index = ElementOf(choices.dtype),
          .choices = choices.num_elements(),
          .k = k,
          .per_lead = k * choices.size(choices.rank() - 2),
          .per_group = k * use.attrs().Int("group_size"),
          .total = global.size(experts),
          .first = use.Start(global, experts),
          .experts = local.size(experts),
          .slots = local.size(experts + 1),
          .capacity = capacity};
}

int64_t CapacityOf(const KernelUse& use) {
  const Type& rows = use.global_operands()[0];
  const Type& choices = use.global_operands()[1];
  int64_t groups =
      choices.size(choices.rank() - 2) / use.attrs().Int("group_size");
  return groups > 0 ? rows.size(rows.rank() - 2) / groups : 1;
}

class MoeKernel : public CudaKernel {
 public:
  MoeKernel(const KernelUse& use, const Routing& routing)
      : routing_(routing), element_(ElementOf(use.operand(0).dtype)) {
    const Type& rows = use.operand(0);
    hidden_ = rows.size(rows.rank() - 1);
    row_bytes_ = hidden_ * SizeOf(rows.dtype);
    result_bytes_ = use.result(0).bytes();
  }
  int64_t workspace_bytes() const override { return routing_.choices * 8; }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) final {
    if (result_bytes_ == 0) return absl::OkStatus();
    auto* rows = static_cast<int64_t*>(args.workspace);
    ASYRA_CUDA(Route(routing_, args.operands[1], rows, stream));
    return Move(args, rows, stream);
  }

 protected:
  virtual absl::Status Move(const KernelArgs& args, const int64_t* rows,
                            cudaStream_t stream) = 0;
  Routing routing_;
  Element element_;
  int64_t hidden_, row_bytes_, result_bytes_;
};

class DispatchKernel : public MoeKernel {
 public:
  explicit DispatchKernel(const KernelUse& use)
      : MoeKernel(use, RoutingOf(use, use.global_results()[0], use.result(0),
                                 use.attrs().Int("capacity"))) {}

  int64_t workspace_bytes() const override {
    return MoeKernel::workspace_bytes() + routing_.rows() * 8;
  }

 private:
  absl::Status Move(const KernelArgs& args, const int64_t* rows,
                    cudaStream_t stream) override {
    int64_t* choices = static_cast<int64_t*>(args.workspace) + routing_.choices;
    ASYRA_CUDA(PutTokens(routing_, rows, args.operands[0], row_bytes_, choices,
                         args.results[0], stream));
    return absl::OkStatus();
  }
};

class CollectKernel : public MoeKernel {
 public:
  explicit CollectKernel(const KernelUse& use)
      : MoeKernel(use, RoutingOf(use, use.global_operands()[0], use.operand(0),
                                 CapacityOf(use))) {}

 private:
  absl::Status Move(const KernelArgs& args, const int64_t* rows,
                    cudaStream_t stream) override {
    ASYRA_CUDA(TakeRows(routing_, rows, args.operands[0], row_bytes_,
                        args.results[0], stream));
    return absl::OkStatus();
  }
};

class CombineKernel : public MoeKernel {
 public:
  explicit CombineKernel(const KernelUse& use)
      : MoeKernel(use, RoutingOf(use, use.global_operands()[0], use.operand(0),
                                 CapacityOf(use))) {}

 private:
  absl::Status Move(const KernelArgs& args, const int64_t* rows,
                    cudaStream_t stream) override {
    ASYRA_CUDA(CombineRows(routing_, rows, element_, args.operands[0],
                           args.operands[2], hidden_, args.results[0], stream));
    return absl::OkStatus();
  }
};

template <typename K>
absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelUse& use) {
  return std::make_unique<K>(use);
}

// Some choice, so that all of a result is written, and counters of experts
// that fit in shared memory.
template <bool dispatches>
bool Supports(const KernelUse& use) {
  const Type& buffers =
      dispatches ? use.global_results()[0] : use.global_operands()[0];
  return use.operand(1).num_elements() > 0 &&
         buffers.size(buffers.rank() - 3) <= kMostExperts;
}

}  // namespace

std::vector<CudaKernelDef> MoeKernels() {
  return {{"moe_dispatch", Supports<true>, Prepare<DispatchKernel>},
          {"moe_collect", Supports<false>, Prepare<CollectKernel>},
          {"moe_combine", Supports<false>, Prepare<CombineKernel>}};
}

}  // namespace asyra::cuda
