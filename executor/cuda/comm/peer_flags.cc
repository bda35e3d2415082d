#include "executor/cuda/comm/peer_flags.h"

#include <cuda.h>

#include <algorithm>

#include "executor/cuda/device/driver_function.h"

namespace asyra::cuda {
namespace {

constexpr int64_t kFlags = 1 << 18;
constexpr int64_t kBytes = kFlags * static_cast<int64_t>(sizeof(uint32_t));

using BatchMemOp = CUresult (*)(CUstream, unsigned, CUstreamBatchMemOpParams*,
                                unsigned);

CUstreamBatchMemOpParams WaitForOne(uint32_t* flag) {
  CUstreamBatchMemOpParams op = {};
  op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  op.waitValue.address = reinterpret_cast<CUdeviceptr>(flag);
  op.waitValue.value = 1;
  op.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  return op;
}

CUstreamBatchMemOpParams Write(uint32_t value, uint32_t* flag) {
  CUstreamBatchMemOpParams op = {};
  op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = reinterpret_cast<CUdeviceptr>(flag);
  op.writeValue.value = value;
  op.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  return op;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerFlags>> PeerFlags::Create() {
  std::unique_ptr<PeerFlags> flags(new PeerFlags());
  ASYRA_RETURN_IF_ERROR(flags->Initialize());
  return flags;
}

absl::Status PeerFlags::Initialize() {
  ASYRA_ASSIGN_OR_RETURN(batch_, DriverFunction("cuStreamBatchMemOp", 12000));
  if (batch_ == nullptr) {
    return absl::FailedPreconditionError(
        "the driver has no cuStreamBatchMemOp, which copies wait with");
  }
  ASYRA_RETURN_IF_ERROR(flags_.Allocate(kBytes));
  ASYRA_CUDA(cudaMemset(flags_.data(), 0, kBytes));
  ASYRA_CUDA(cudaHostAlloc(&ones_, kBytes, cudaHostAllocPortable));
  std::fill(ones_, ones_ + kFlags, 1);
  ASYRA_CUDA(cudaStreamCreateWithFlags(&release_, cudaStreamNonBlocking));
  ASYRA_CUDA(cudaDeviceSynchronize());
  return absl::OkStatus();
}

PeerFlags::~PeerFlags() {
  if (release_ != nullptr) cudaStreamDestroy(release_);
  cudaFreeHost(ones_);
}

absl::StatusOr<uint32_t*> PeerFlags::Take(int64_t count) {
  if (taken_ + count > kFlags) {
    return absl::ResourceExhaustedError(
        fmt::format("{} flags of {} are taken, {} more are asked for", taken_,
                    kFlags, count));
  }
  taken_ += count;
  return static_cast<uint32_t*>(flags_.data()) + taken_ - count;
}

// The writes come after all work on the stream, and after what it wrote to
// other GPUs: memory operations are preceded by a barrier.
absl::Status PeerFlags::Raise(absl::Span<uint32_t* const> theirs,
                              cudaStream_t stream) {
  MemoryOps ops;
  for (uint32_t* flag : theirs) ops.push_back(Write(1, flag));
  return Enqueue(ops, stream);
}

absl::Status PeerFlags::Await(absl::Span<uint32_t* const> mine,
                              cudaStream_t stream) {
  MemoryOps ops;
  for (uint32_t* flag : mine) {
    ops.push_back(WaitForOne(flag));
    ops.push_back(Write(0, flag));
  }
  return Enqueue(ops, stream);
}

absl::Status PeerFlags::Enqueue(MemoryOps& ops, cudaStream_t stream) {
  if (ops.empty()) return absl::OkStatus();
  CUresult error = reinterpret_cast<BatchMemOp>(batch_)(
      stream, static_cast<unsigned>(ops.size()), ops.data(), 0);
  if (error == CUDA_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("cuStreamBatchMemOp: error {}", static_cast<int>(error)));
}

void PeerFlags::RaiseAll() {
  cudaMemcpyAsync(flags_.data(), ones_, kBytes, cudaMemcpyDefault, release_);
}

}  // namespace asyra::cuda
