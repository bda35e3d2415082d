#include "executor/cuda/comm/fused_reduction_kernel.h"

#include <algorithm>

#include "executor/cuda/codegen/codegen.h"
#include "executor/cuda/codegen/nvrtc_module.h"
#include "executor/cuda/device/element.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "executor/strides.h"
#include "ir/gpu/vector_bytes.h"
#include "ir/plans/fused_reduction.h"

namespace asyra::cuda {
namespace {

// The generated code and its addressing, equal on all members.
struct Design {
  GeneratedUse code;
  PeerCode peers;
  // Bytes between the parts of neighbouring members: in the operand that is
  // summed, and by result where it is gathered.
  int64_t summed_step = 0;
  std::vector<int64_t> gathered_steps;
};

// Returns the bytes between members' parts along dimension `dim` of a dense
// value that has the parts of all members.
int64_t StepBytes(const Type& whole, int dim, int64_t members) {
  return DenseStrides(whole.shape())[dim] * (whole.size(dim) / members) *
         SizeOf(whole.dtype);
}

class Designer {
 public:
  explicit Designer(const CollectiveUse& use) : use_(use.use) {}

  // The obstacle where there is one.
  absl::StatusOr<std::string> Run() {
    const Body& body = *BodyOf(use_.attrs());
    ASYRA_ASSIGN_OR_RETURN(
        fused_, FusedReductionOf(body, use_.global_operands(), use_.mesh()));
    AttrMap attrs = {{"body", BodyRef(fused_.rows)}};
    KernelUse rows(*FindOp("fusion"), std::move(attrs), fused_.operands,
                   fused_.results, use_.mesh(), use_.rank());
    const CudaKernelDef* def = FindCudaKernel(rows);
    if (def == nullptr || def->describe == nullptr) {
      return "no kernel computes its rows in one loop";
    }
    design_.code = def->describe(rows);
    loop_ = design_.code.loop.rows;
    loop_.insert(loop_.end(), design_.code.loop.columns.begin(),
                 design_.code.loop.columns.end());
    if (!design_.code.operands.empty() ||
        rows.operand(fused_.summed).shape() != loop_) {
      return "what is summed has fewer elements than its rows";
    }
    design_.peers = {.members = static_cast<int>(fused_.members),
                     .summed = fused_.summed};
    PlaceSum(body.ops[0]);
    for (int k = 0; k < rows.num_results(); ++k) {
      if (fused_.gathered[k] >= 0 && rows.result(k).shape() != loop_) {
        return "what is gathered has fewer elements than its rows";
      }
      PlaceResult(k);
    }
    return Checked();
  }

  Design Take() { return std::move(design_); }

 private:
  void PlaceSum(const BodyOp& reduction) {
    if (reduction.def->collective != CollectiveKind::kReduceScatter) return;
    const Type& whole = use_.operand(fused_.summed);
    auto dim = static_cast<int>(reduction.attrs.Int("dim"));
    design_.code.loop.operands[fused_.summed].strides =
        DenseStrides(whole.shape());
    design_.summed_step = StepBytes(whole, dim, fused_.members);
  }

  void PlaceResult(int k) {
    design_.peers.gathered.push_back(fused_.gathered[k] >= 0);
    design_.gathered_steps.push_back(0);
    if (fused_.gathered[k] < 0) return;
    const Type& whole = use_.result(k);
    design_.code.loop.results[k].strides = DenseStrides(whole.shape());
    design_.gathered_steps.back() =
        StepBytes(whole, fused_.gathered[k], fused_.members);
  }

  std::string Checked() const {
    bool aligned = design_.summed_step % kGpuVectorBytes == 0;
    for (int64_t step : design_.gathered_steps) {
      aligned &= step % kGpuVectorBytes == 0;
    }
    if (!aligned) {
      return fmt::format("the parts of members are no multiple of {} bytes",
                         kGpuVectorBytes);
    }
    if (!CanReachPeers(design_.code.expression, design_.code.loop,
                       design_.peers)) {
      return "what is summed or gathered is one element for a row";
    }
    return "";
  }

  const KernelUse& use_;
  FusedReduction fused_;
  Design design_;
  Shape loop_;
};

class FusedReductionKernel : public CudaKernel {
 public:
  FusedReductionKernel(Design design, std::vector<int64_t> members, PeerUse own)
      : design_(std::move(design)), members_(std::move(members)), own_(own) {}

  absl::Status Prepare() {
    GeneratedSource source =
        Generate(design_.code.expression, design_.code.loop, &design_.peers);
    ASYRA_ASSIGN_OR_RETURN(
        kernel_,
        CompileKernel(source.text, kGeneratedName,
                      {.approximate_division = source.approximate_division}));
    threads_ = source.threads;
    ASYRA_ASSIGN_OR_RETURN(int64_t most, MostBlocks());
    blocks_ = static_cast<unsigned>(std::min(source.blocks, most));
    ASYRA_ASSIGN_OR_RETURN(flags_,
                           own_.flags->Take(PeerFlagCount(num_members())));
    return absl::OkStatus();
  }

  std::string_view transport() const override { return kPeerMemory; }

  // Collects from each member the summands, what it gathers, and its flags.
  absl::Status Bind(const KernelArgs& args) override {
    std::vector<void*> mine = {args.operands[design_.peers.summed], flags_};
    for (size_t k = 0; k < args.results.size(); ++k) {
      if (design_.peers.gathered[k]) mine.push_back(args.results[k]);
    }
    ASYRA_ASSIGN_OR_RETURN(opened_, own_.memory->Exchange(members_, mine));
    for (size_t member = 0; member < members_.size(); ++member) {
      if (opened_[member].size() == mine.size()) continue;
      return Invalid("rank {} tells {} addresses, {} are expected",
                     members_[member], opened_[member].size(), mine.size());
    }
    AddOperands(args);
    AddResults(args);
    AddOfAll(1, 0);
    aborted_ = own_.flags->aborted();
    for (void*& address : addresses_) arguments_.push_back(&address);
    arguments_.push_back(&own_.self);
    arguments_.push_back(&aborted_);
    return absl::OkStatus();
  }

  absl::Status Enqueue(const KernelArgs&, cudaStream_t stream) override {
    ASYRA_CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), blocks_,
                                threads_, arguments_.data(), 0, stream));
    return absl::OkStatus();
  }

 private:
  // A block on each SM reads over the links as fast as more do; on half of them
  // it takes 1.2 times as long, measured on two H200. Members may begin two
  // such kernels, of two streams, in different orders: each must find SMs while
  // the other waits.
  absl::StatusOr<int64_t> MostBlocks() const {
    int gpu = 0, sms = 0, of_an_sm = 0;
    ASYRA_CUDA(cudaGetDevice(&gpu));
    ASYRA_CUDA(
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, gpu));
    ASYRA_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &of_an_sm, reinterpret_cast<const void*>(kernel_), threads_, 0));
    return of_an_sm >= 2 ? sms : std::max(1, sms / 2);
  }

  int num_members() const { return design_.peers.members; }

  // The address that each member told as its number `which`, at this rank's
  // part.
  void AddOfAll(size_t which, int64_t step_bytes) {
    for (const std::vector<PeerAddress>& of_member : opened_) {
      addresses_.push_back(static_cast<std::byte*>(of_member[which].address) +
                           own_.self * step_bytes);
    }
  }

  void AddOperands(const KernelArgs& args) {
    for (size_t k = 0; k < args.operands.size(); ++k) {
      if (static_cast<int>(k) == design_.peers.summed) {
        AddOfAll(0, design_.summed_step);
      } else {
        addresses_.push_back(args.operands[k]);
      }
    }
  }

  void AddResults(const KernelArgs& args) {
    size_t which = 2;
    for (size_t k = 0; k < args.results.size(); ++k) {
      if (design_.peers.gathered[k]) {
        AddOfAll(which++, design_.gathered_steps[k]);
      } else {
        addresses_.push_back(args.results[k]);
      }
    }
  }

  Design design_;
  std::vector<int64_t> members_;  // ranks
  PeerUse own_;
  cudaKernel_t kernel_ = nullptr;
  int threads_ = 0;
  unsigned blocks_ = 0;
  uint32_t* flags_ = nullptr;
  std::vector<std::vector<PeerAddress>> opened_;  // by member
  const uint32_t* aborted_ = nullptr;
  std::vector<void*> addresses_;  // of operands, results and flags
  std::vector<void*> arguments_;  // of the kernel: where its values are
};

}  // namespace

absl::StatusOr<std::string> FusedReductionObstacle(const CollectiveUse& use) {
  return Designer(use).Run();
}

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareFusedReduction(
    const CollectiveUse& use, PeerUse own) {
  Designer designer(use);
  ASYRA_ASSIGN_OR_RETURN(std::string obstacle, designer.Run());
  if (!obstacle.empty()) return Unimplemented("not one kernel: {}", obstacle);
  auto kernel =
      std::make_unique<FusedReductionKernel>(designer.Take(), use.members, own);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  kernel->set_label(use.label);
  return kernel;
}

}  // namespace asyra::cuda
