// Kernels on a partition of a GPU's SMs, so that collectives on other streams
// start at once (sm_margin, ScheduleAttrs in ir/op_def.h). cuBLASLt limits its
// GEMMs to a given number of SMs; kernels without such a setting run on streams
// of a green context, to which the driver assigns the SMs. Measured on an H200
// with 124 of 132 SMs: GEMMs take 0.92 to 1.04 times as long, attention 1.02 to
// 1.09, and a kernel of 16 CTAs starts beside them within 20 us instead of at
// their end.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "executor/cuda/device/cuda_kernel.h"

namespace asyra::cuda {

// Returns the SMs of the current GPU less `margin`. Errors: none are left.
absl::StatusOr<int> SmsWithin(int margin);

class PartStream {
 public:
  // Makes a stream of the current GPU on all SMs but `margin`, rounded up to
  // what the driver can partition. Error: Unimplemented where it cannot
  // partition SMs.
  static absl::StatusOr<std::unique_ptr<PartStream>> Create(int margin);
  PartStream(const PartStream&) = delete;
  PartStream& operator=(const PartStream&) = delete;
  ~PartStream();

  // Work that `enqueue` puts on the stream that it is given runs after the work
  // that is on `stream` now, and before later work there.
  absl::Status Within(
      cudaStream_t stream,
      absl::FunctionRef<absl::Status(cudaStream_t part)> enqueue) const;

 private:
  PartStream() = default;
  cudaStream_t part_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Prepares the kernel on all SMs but `margin`; on all SMs where the driver
// cannot partition them.
absl::StatusOr<std::unique_ptr<Kernel>> OnSmPartition(
    std::unique_ptr<CudaKernel> kernel, int margin);

}  // namespace asyra::cuda
