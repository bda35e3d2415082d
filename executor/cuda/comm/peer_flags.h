// How GPUs of one process meet without a kernel: streams wait for flags in
// their GPU's memory, which copies from the others set. A kernel would wait for
// a place beside products, whose blocks stay until the whole is done.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/cuda/device/scratch.h"

namespace asyra::cuda {

// Flags of one GPU. Thread-safe but for Take.
class PeerFlags {
 public:
  // On the current GPU. Error: a driver that knows no waiting for memory.
  static absl::StatusOr<std::unique_ptr<PeerFlags>> Create();
  ~PeerFlags();

  // `count` flags that nobody else has, all of them down.
  // Error: ResourceExhausted.
  absl::StatusOr<uint32_t*> Take(int64_t count);

  // Enqueues that the flags of others are raised, once what is on the stream
  // is done.
  absl::Status Raise(absl::Span<uint32_t* const> theirs, cudaStream_t stream);
  // Enqueues that the stream waits until these of its own are up, and takes
  // them down again.
  absl::Status Await(absl::Span<uint32_t* const> mine, cudaStream_t stream);

  // Raises all flags, so that nothing waits any longer. What is enqueued goes
  // on with whatever it finds.
  void RaiseAll();

 private:
  PeerFlags() = default;
  absl::Status Initialize();

  Scratch flags_, one_;  // `one_` is what is copied to raise a flag
  int64_t taken_ = 0;
  void* wait_or_write_ = nullptr;   // cuStreamBatchMemOp
  uint32_t* ones_ = nullptr;        // in memory of the host, a flag each
  cudaStream_t release_ = nullptr;  // RaiseAll's own
};

}  // namespace asyra::cuda
