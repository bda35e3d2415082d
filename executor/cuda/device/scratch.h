// Memory of a GPU for as long as something is prepared.
#pragma once

#include <algorithm>
#include <utility>

#include "executor/cuda/device/cuda_status.h"
#include "ir/support/status.h"

namespace asyra::cuda {

class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() { cudaFree(data_); }

  // Allocates once. Error: ResourceExhausted.
  absl::Status Allocate(int64_t bytes) {
    ASYRA_CUDA(cudaMalloc(&data_, std::max<int64_t>(bytes, 1)));
    return absl::OkStatus();
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace asyra::cuda
