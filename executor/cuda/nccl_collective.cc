#include "executor/cuda/nccl_collective.h"

#include "executor/cuda/rows.h"

namespace asyra::cuda {
namespace {

absl::StatusOr<ncclDataType_t> SummedType(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBool:
      break;
  }
  return Unimplemented("NCCL has no sum of {}", ToString(dtype));
}

// What NCCL sends and receives lies as [member][outer][middle][run].
RowCopy Packed(const CollectiveGeometry& geometry, int64_t members) {
  int64_t size = SizeOf(geometry.dtype);
  RowCopy copy;
  copy.blocks = members;
  copy.outer = geometry.outer;
  copy.middle = geometry.middle;
  copy.run_bytes = geometry.run_elements * size;
  copy.from_middle = copy.to_middle = copy.run_bytes;
  copy.from_outer = copy.to_outer = geometry.middle * copy.run_bytes;
  copy.from_block = copy.to_block = geometry.outer * copy.from_outer;
  return copy;
}

// From the operand to what is sent, one block for each member.
RowCopy Packing(const CollectiveGeometry& geometry, int64_t members) {
  int64_t size = SizeOf(geometry.dtype);
  RowCopy copy = Packed(geometry, members);
  copy.from_block = geometry.read_member * size;
  copy.from_outer = geometry.read_outer * size;
  copy.from_middle = geometry.read_middle * size;
  return copy;
}

// From what was received to the result.
RowCopy Unpacking(const CollectiveGeometry& geometry, int64_t members) {
  int64_t size = SizeOf(geometry.dtype);
  RowCopy copy = Packed(geometry, members);
  copy.to_block = geometry.write_member * size;
  copy.to_outer = geometry.write_outer * size;
  copy.to_middle = geometry.write_middle * size;
  return copy;
}

// Calls of NCCL that one collective may take.
constexpr int64_t kMostCalls = 8;

class NcclCollective : public CudaKernel {
 public:
  NcclCollective(CollectiveKind kind, const CollectiveGeometry& geometry,
                 int64_t members, ncclDataType_t type, ncclComm_t comm)
      : kind_(kind),
        type_(type),
        comm_(comm),
        count_(geometry.block_elements()),
        block_bytes_(count_ * SizeOf(geometry.dtype)) {
    // Moved as bytes: NCCL needs to know the type of sums only.
    if (!geometry.sums) count_ = block_bytes_;
    bool sends_blocks = kind == CollectiveKind::kReduceScatter ||
                        kind == CollectiveKind::kAllToAll;
    bool gets_blocks =
        kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
    packing_ = Packing(geometry, members);
    unpacking_ = Unpacking(geometry, members);
    packs_ = sends_blocks && !IsPlain(packing_);
    unpacks_ = gets_blocks && !IsPlain(unpacking_);
    all_bytes_ = (members * block_bytes_ + 255) / 256 * 256;
    if (packs_ || unpacks_) Split(geometry);
  }

  int64_t workspace_bytes() const override {
    return (packs_ ? all_bytes_ : 0) + (unpacks_ ? all_bytes_ : 0);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    const void* from = args.operands[0];
    void* to = args.results[0];
    auto* workspace = static_cast<std::byte*>(args.workspace);
    if (packs_) {
      ASYRA_CUDA(CopyRows(packing_, from, workspace, stream));
      from = workspace;
    }
    if (unpacks_) to = workspace + (packs_ ? all_bytes_ : 0);
    ASYRA_RETURN_IF_ERROR(Move(from, to, stream));
    if (unpacks_) {
      ASYRA_CUDA(CopyRows(unpacking_, to, args.results[0], stream));
    }
    return absl::OkStatus();
  }

 private:
  // Blocks that lie together but for a short outer loop (the batch, where the
  // sequence is sharded) are moved by a call for each of its rounds, in one
  // launch, rather than packed.
  void Split(const CollectiveGeometry& geometry) {
    if (kind_ == CollectiveKind::kAllToAll || geometry.middle != 1 ||
        geometry.outer > kMostCalls) {
      return;
    }
    int64_t size = SizeOf(geometry.dtype);
    calls_ = geometry.outer;
    count_ /= calls_;
    from_step_ = geometry.read_outer * size;
    to_step_ = geometry.write_outer * size;
    packs_ = unpacks_ = false;
  }

  absl::Status Move(const void* from, void* to, cudaStream_t stream) {
    if (count_ == 0) return absl::OkStatus();
    if (calls_ == 1) return Call(from, to, stream);
    ASYRA_RETURN_IF_ERROR(ToStatus(ncclGroupStart(), "ncclGroupStart"));
    absl::Status status;
    for (int64_t i = 0; i < calls_ && status.ok(); ++i) {
      status = Call(static_cast<const std::byte*>(from) + i * from_step_,
                    static_cast<std::byte*>(to) + i * to_step_, stream);
    }
    absl::Status ended = ToStatus(ncclGroupEnd(), "ncclGroupEnd");
    return status.ok() ? ended : status;
  }

  absl::Status Call(const void* from, void* to, cudaStream_t stream) {
    switch (kind_) {
      case CollectiveKind::kAllReduce:
        return ToStatus(
            ncclAllReduce(from, to, count_, type_, ncclSum, comm_, stream),
            "ncclAllReduce");
      case CollectiveKind::kReduceScatter:
        return ToStatus(
            ncclReduceScatter(from, to, count_, type_, ncclSum, comm_, stream),
            "ncclReduceScatter");
      case CollectiveKind::kAllGather:
        return ToStatus(ncclAllGather(from, to, count_, type_, comm_, stream),
                        "ncclAllGather");
      case CollectiveKind::kAllToAll:
        return ToStatus(ncclAlltoAll(from, to, count_, type_, comm_, stream),
                        "ncclAlltoAll");
      case CollectiveKind::kNone:
        break;
    }
    return absl::OkStatus();
  }

  CollectiveKind kind_;
  ncclDataType_t type_;
  ncclComm_t comm_;
  int64_t count_;  // of a block, in elements of type_
  int64_t block_bytes_, all_bytes_;
  RowCopy packing_, unpacking_;
  bool packs_, unpacks_;
  int64_t calls_ = 1;
  int64_t from_step_ = 0, to_step_ = 0;  // bytes from one call to the next
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareNcclCollective(
    const CollectiveUse& use, ncclComm_t comm) {
  auto members = static_cast<int64_t>(use.members.size());
  ASYRA_ASSIGN_OR_RETURN(CollectiveGeometry geometry,
                         GeometryOf(use.use, members));
  ncclDataType_t type = ncclInt8;
  if (geometry.sums) {
    ASYRA_ASSIGN_OR_RETURN(type, SummedType(geometry.dtype));
  }
  auto kernel = std::make_unique<NcclCollective>(use.use.def().collective,
                                                 geometry, members, type, comm);
  kernel->set_label(use.label);
  return kernel;
}

}  // namespace asyra::cuda
