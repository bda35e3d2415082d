#include "executor/cuda/comm/nccl_collective.h"

#include <vector>

#include "executor/cuda/kernels/strided_copy.h"
#include "executor/device.h"
#include "ir/gpu/grouped_calls.h"
#include "ir/support/round_up.h"

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

// Runs calls that NCCL joins in one launch.
template <typename Calls>
absl::Status InGroup(Calls calls) {
  ASYRA_RETURN_IF_ERROR(ToStatus(ncclGroupStart(), "ncclGroupStart"));
  absl::Status status = calls();
  // Also after an error: an open group would include all later calls.
  absl::Status ended = ToStatus(ncclGroupEnd(), "ncclGroupEnd");
  return status.ok() ? ended : status;
}

// NCCL sends and receives a layout of [member][outer][middle][run].
StridedCopy Packed(const CollectiveGeometry& geometry, int64_t members) {
  int64_t size = SizeOf(geometry.dtype);
  StridedCopy copy;
  copy.blocks = members;
  copy.outer = geometry.outer;
  copy.middle = geometry.middle;
  copy.run_bytes = geometry.run_elements * size;
  copy.from_middle = copy.to_middle = copy.run_bytes;
  copy.from_outer = copy.to_outer = geometry.middle * copy.run_bytes;
  copy.from_block = copy.to_block = geometry.outer * copy.from_outer;
  return copy;
}

// Packs the operand into what is sent, one chunk for each member.
StridedCopy Packing(const CollectiveGeometry& geometry, int64_t members) {
  int64_t size = SizeOf(geometry.dtype);
  StridedCopy copy = Packed(geometry, members);
  copy.from_block = geometry.read_member * size;
  copy.from_outer = geometry.read_outer * size;
  copy.from_middle = geometry.read_middle * size;
  return copy;
}

// Unpacks what was received into the result.
StridedCopy Unpacking(const CollectiveGeometry& geometry, int64_t members) {
  int64_t size = SizeOf(geometry.dtype);
  StridedCopy copy = Packed(geometry, members);
  copy.to_block = geometry.write_member * size;
  copy.to_outer = geometry.write_outer * size;
  copy.to_middle = geometry.write_middle * size;
  return copy;
}

// The data movement of one operand to its result. Chunks that are not
// contiguous are packed into the workspace before NCCL runs, and unpacked from
// it afterwards.
class Part {
 public:
  Part(CollectiveKind kind, const CollectiveGeometry& geometry, int64_t members,
       int64_t self, ncclDataType_t type, int64_t work_begin)
      : kind_(kind),
        to_(static_cast<int>((self + geometry.shift) % members)),
        from_(static_cast<int>((self + members - geometry.shift) % members)),
        type_(type),
        count_(geometry.chunk_elements()),
        work_begin_(work_begin) {
    int64_t chunk_bytes = count_ * SizeOf(geometry.dtype);
    // Moved as bytes: NCCL needs to know the type of sums only.
    if (!geometry.sums) count_ = chunk_bytes;
    bool sends_chunks = kind == CollectiveKind::kReduceScatter ||
                        kind == CollectiveKind::kAllToAll;
    bool gets_chunks =
        kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
    packing_ = Packing(geometry, members);
    unpacking_ = Unpacking(geometry, members);
    packs_ = sends_chunks && !IsPlain(packing_);
    unpacks_ = gets_chunks && !IsPlain(unpacking_);
    all_bytes_ = RoundUp(members * chunk_bytes, kWorkspaceAlignment);
    if (packs_ || unpacks_) Split(geometry);
  }

  int64_t work_bytes() const {
    return (packs_ ? all_bytes_ : 0) + (unpacks_ ? all_bytes_ : 0);
  }

  absl::Status Pack(const void* operand, std::byte* workspace,
                    cudaStream_t stream) const {
    if (!packs_) return absl::OkStatus();
    ASYRA_CUDA(CopyStrided(packing_, operand, workspace + work_begin_, stream));
    return absl::OkStatus();
  }

  absl::Status Move(const void* operand, void* result, std::byte* workspace,
                    ncclComm_t comm, cudaStream_t stream) const {
    if (count_ == 0) return absl::OkStatus();
    const void* from = packs_ ? workspace + work_begin_ : operand;
    void* to = unpacks_ ? Received(workspace) : result;
    if (calls_ == 1) return Call(from, to, comm, stream);
    return InGroup([&] {
      absl::Status status;
      for (int64_t i = 0; i < calls_ && status.ok(); ++i) {
        status = Call(static_cast<const std::byte*>(from) + i * from_step_,
                      static_cast<std::byte*>(to) + i * to_step_, comm, stream);
      }
      return status;
    });
  }

  absl::Status Unpack(void* result, std::byte* workspace,
                      cudaStream_t stream) const {
    if (!unpacks_) return absl::OkStatus();
    ASYRA_CUDA(CopyStrided(unpacking_, Received(workspace), result, stream));
    return absl::OkStatus();
  }

 private:
  // Chunks that are contiguous except for a short outer loop (the batch, if the
  // sequence is sharded) are not packed but moved by grouped calls in one
  // launch, one call for each iteration.
  void Split(const CollectiveGeometry& geometry) {
    int64_t size = SizeOf(geometry.dtype);
    if (kind_ == CollectiveKind::kAllToAll || geometry.middle != 1 ||
        !UseGroupedCalls(geometry.outer, geometry.run_elements * size)) {
      return;
    }
    calls_ = geometry.outer;
    count_ /= calls_;
    from_step_ = geometry.read_outer * size;
    to_step_ = geometry.write_outer * size;
    packs_ = unpacks_ = false;
  }

  absl::Status Call(const void* from, void* to, ncclComm_t comm,
                    cudaStream_t stream) const {
    switch (kind_) {
      case CollectiveKind::kAllReduce:
        return ToStatus(
            ncclAllReduce(from, to, count_, type_, ncclSum, comm, stream),
            "ncclAllReduce");
      case CollectiveKind::kReduceScatter:
        return ToStatus(
            ncclReduceScatter(from, to, count_, type_, ncclSum, comm, stream),
            "ncclReduceScatter");
      case CollectiveKind::kAllGather:
        return ToStatus(ncclAllGather(from, to, count_, type_, comm, stream),
                        "ncclAllGather");
      case CollectiveKind::kAllToAll:
        return ToStatus(ncclAlltoAll(from, to, count_, type_, comm, stream),
                        "ncclAlltoAll");
      case CollectiveKind::kShift:
        return Exchange(from, to, comm, stream);
      case CollectiveKind::kNone:
        break;
    }
    return absl::OkStatus();
  }

  absl::Status Exchange(const void* from, void* to, ncclComm_t comm,
                        cudaStream_t stream) const {
    return InGroup([&]() -> absl::Status {
      ASYRA_RETURN_IF_ERROR(ToStatus(
          ncclSend(from, count_, type_, to_, comm, stream), "ncclSend"));
      return ToStatus(ncclRecv(to, count_, type_, from_, comm, stream),
                      "ncclRecv");
    });
  }

  std::byte* Received(std::byte* workspace) const {
    return workspace + work_begin_ + (packs_ ? all_bytes_ : 0);
  }

  CollectiveKind kind_;
  int to_, from_;  // members of a shift
  ncclDataType_t type_;
  int64_t count_;  // of a chunk, in elements of type_
  int64_t work_begin_, all_bytes_;
  StridedCopy packing_, unpacking_;
  bool packs_, unpacks_;
  int64_t calls_ = 1;
  int64_t from_step_ = 0, to_step_ = 0;  // bytes from one call to the next
};

// All operands are packed, NCCL moves them in one launch, all are unpacked.
class NcclCollective : public CudaKernel {
 public:
  NcclCollective(std::vector<Part> parts, ncclComm_t comm)
      : parts_(std::move(parts)), comm_(comm) {}

  int64_t workspace_bytes() const override {
    int64_t bytes = 0;
    for (const Part& part : parts_) bytes += part.work_bytes();
    return bytes;
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    auto* workspace = static_cast<std::byte*>(args.workspace);
    for (size_t p = 0; p < parts_.size(); ++p) {
      ASYRA_RETURN_IF_ERROR(
          parts_[p].Pack(args.operands[p], workspace, stream));
    }
    ASYRA_RETURN_IF_ERROR(Move(args, workspace, stream));
    for (size_t p = 0; p < parts_.size(); ++p) {
      ASYRA_RETURN_IF_ERROR(
          parts_[p].Unpack(args.results[p], workspace, stream));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Move(const KernelArgs& args, std::byte* workspace,
                    cudaStream_t stream) const {
    if (parts_.size() == 1) {
      return parts_[0].Move(args.operands[0], args.results[0], workspace, comm_,
                            stream);
    }
    return InGroup([&] {
      absl::Status status;
      for (size_t p = 0; p < parts_.size() && status.ok(); ++p) {
        status = parts_[p].Move(args.operands[p], args.results[p], workspace,
                                comm_, stream);
      }
      return status;
    });
  }

  std::vector<Part> parts_;  // by operand
  ncclComm_t comm_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareNcclCollective(
    const CollectiveUse& use, int self, ncclComm_t comm) {
  auto members = static_cast<int64_t>(use.members.size());
  ASYRA_ASSIGN_OR_RETURN(std::vector<CollectiveGeometry> geometries,
                         GeometriesOf(use));
  std::vector<Part> parts;
  int64_t work_bytes = 0;
  for (const CollectiveGeometry& geometry : geometries) {
    ncclDataType_t type = ncclInt8;
    if (geometry.sums) {
      ASYRA_ASSIGN_OR_RETURN(type, SummedType(geometry.dtype));
    }
    parts.emplace_back(use.use.def().collective, geometry, members, self, type,
                       work_bytes);
    work_bytes += parts.back().work_bytes();
  }
  auto kernel = std::make_unique<NcclCollective>(std::move(parts), comm);
  kernel->set_label(use.label);
  return kernel;
}

}  // namespace asyra::cuda
