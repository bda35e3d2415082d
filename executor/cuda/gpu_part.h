// Kernels kept to a part of a GPU's processors, so that what comes meanwhile on
// other streams finds room at once (Op::spares). cuBLASLt keeps its products to
// as many as it is told; for kernels that cannot be told there are streams of
// a green context, whose processors the driver sets apart. Measured on an H200
// with 124 of 132: products take 0.92 to 1.04 times as long, attention 1.02 to
// 1.09, and a kernel of 16 blocks begins beside them within 20 us instead of at
// their end.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "executor/cuda/cuda_kernel.h"

namespace asyra::cuda {

// The current GPU's processors but `spares` of them. Errors: none are left.
absl::StatusOr<int> ProcessorsBut(int spares);

class PartStream {
 public:
  // Of the current GPU, on all processors but `spares`, rounded up to what the
  // driver sets apart. Unimplemented where it sets none apart.
  static absl::StatusOr<std::unique_ptr<PartStream>> Create(int spares);
  PartStream(const PartStream&) = delete;
  PartStream& operator=(const PartStream&) = delete;
  ~PartStream();

  // What `enqueue` puts on the stream that it is given runs after what is on
  // `stream` now, and before what comes there next.
  absl::Status Within(
      cudaStream_t stream,
      absl::FunctionRef<absl::Status(cudaStream_t part)> enqueue) const;

 private:
  PartStream() = default;
  cudaStream_t part_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// The kernel on such a part; itself where none is set apart.
absl::StatusOr<std::unique_ptr<Kernel>> OnPart(
    std::unique_ptr<CudaKernel> kernel, int spares);

}  // namespace asyra::cuda
