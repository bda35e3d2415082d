// Kernels of the cpu are functions that the stream's thread calls.
#pragma once

#include "executor/cpu/cpu_stream.h"
#include "executor/kernel.h"
#include "ir/support/status.h"

namespace asyra {

class CpuKernel : public Kernel {
 public:
  void Launch(const KernelArgs& args, Stream& stream) final {
    auto run = [](void* a, const void* b, int64_t) {
      auto* kernel = static_cast<CpuKernel*>(a);
      absl::Status status = kernel->Run(*static_cast<const KernelArgs*>(b));
      if (status.ok() || kernel->label().empty()) return status;
      return Annotate(status, kernel->label());
    };
    static_cast<CpuStream&>(stream).Enqueue(
        {.run = run, .a = this, .b = &args});
  }

  // Runs on the stream's thread. Allocates nothing, except in a kernel that is
  // not native.
  virtual absl::Status Run(const KernelArgs& args) = 0;
};

}  // namespace asyra
