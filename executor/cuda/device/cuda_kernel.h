// Kernels of the cuda device enqueue on a CUDA stream, in the order of the
// stream, without synchronizing or allocating, so that a step of them can be
// captured as a graph.
#pragma once

#include "executor/cuda/device/cuda_stream.h"
#include "executor/kernel.h"
#include "ir/support/status.h"

namespace asyra {

class CudaKernel : public Kernel {
 public:
  void Launch(const KernelArgs& args, Stream& stream) final {
    auto& on = static_cast<cuda::CudaStream&>(stream);
    Report(Enqueue(args, on.handle()), on);
  }
  void LaunchSelfCopy(const KernelArgs& args, Stream& stream) final {
    auto& on = static_cast<cuda::CudaStream&>(stream);
    Report(EnqueueSelfCopy(args, on.handle()), on);
  }

  virtual absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) = 0;
  // Gives a kernel that checks its operands the place for what it finds, which
  // outlives it; called once, before the first launch.
  virtual void ReportTo(cuda::ProbeResults* results) { (void)results; }
  virtual absl::Status EnqueueSelfCopy(const KernelArgs& args,
                                       cudaStream_t stream) {
    (void)args;
    (void)stream;
    return absl::OkStatus();
  }

 private:
  void Report(const absl::Status& status, cuda::CudaStream& on) const {
    if (status.ok()) return;
    on.Report(label().empty() ? status : Annotate(status, label()));
  }
};

}  // namespace asyra
