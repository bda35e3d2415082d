// Barriers between GPUs of one process without a kernel: streams wait for flags
// in their GPU's memory, which the others write. A kernel would have to wait
// for free SMs, because CTAs of a matmul stay until it is done. The flags of
// barriers within kernels (codegen/peer_code.h) are here too.
#pragma once

#include <cuda.h>

#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/cuda/device/scratch.h"

namespace asyra::cuda {

// Flags of one GPU. Thread-safe but for Take.
class PeerFlags {
 public:
  // Makes the flags of the current GPU. Error: the driver cannot wait for
  // memory on a stream.
  static absl::StatusOr<std::unique_ptr<PeerFlags>> Create();
  ~PeerFlags();

  // Allocates `count` flags, all of them cleared.
  // Error: ResourceExhausted.
  absl::StatusOr<uint32_t*> Take(int64_t count);

  // Enqueues setting the flags of other GPUs, after the work on the stream: one
  // memory operation for all of them.
  absl::Status Raise(absl::Span<uint32_t* const> theirs, cudaStream_t stream);
  // Enqueues waiting until these flags of this GPU are set, then clears them.
  absl::Status Await(absl::Span<uint32_t* const> mine, cudaStream_t stream);

  // Sets all flags, `aborted` too, so that nothing waits any longer; enqueued
  // work continues with whatever data there is.
  void RaiseAll();
  // Set by RaiseAll alone, for kernels that wait.
  const uint32_t* aborted() const {
    return static_cast<const uint32_t*>(flags_.data());
  }

 private:
  PeerFlags() = default;
  using MemoryOps = absl::InlinedVector<CUstreamBatchMemOpParams, 16>;

  absl::Status Initialize();
  absl::Status Enqueue(MemoryOps& ops, cudaStream_t stream);

  Scratch flags_;
  int64_t taken_ = 1;               // `aborted`
  void* batch_ = nullptr;           // cuStreamBatchMemOp
  uint32_t* ones_ = nullptr;        // in memory of the host, a flag each
  cudaStream_t release_ = nullptr;  // RaiseAll's own
};

}  // namespace asyra::cuda
