// Values that a process has once for each GPU: handles of libraries, facts.
#pragma once

#include <map>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "executor/cuda/device/cuda_status.h"
#include "ir/support/status.h"

namespace asyra::cuda {

// Used by all threads.
template <typename T>
class PerGpu {
 public:
  // Returns the value of the current GPU, which stays where it is. `make` fills
  // it the first time, one thread after the other, and again where it has
  // failed.
  absl::StatusOr<T*> Get(absl::FunctionRef<absl::Status(T*)> make) {
    int gpu = 0;
    ASYRA_CUDA(cudaGetDevice(&gpu));
    std::lock_guard lock(mutex_);
    Entry& entry = entries_[gpu];
    if (!entry.made) {
      ASYRA_RETURN_IF_ERROR(make(&entry.value));
      entry.made = true;
    }
    return &entry.value;
  }

 private:
  struct Entry {
    bool made = false;
    T value = {};
  };
  std::mutex mutex_;
  std::map<int, Entry> entries_;
};

}  // namespace asyra::cuda
