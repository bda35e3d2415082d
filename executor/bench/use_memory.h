// Device memory for the launches of one kernel on random data.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device.h"

namespace asyra {

// Several sets of operands and results, used in turn, so that caches hold no
// more of them than in a real step.
class UseMemory {
 public:
  struct Options {
    int64_t apart_bytes = 0;  // that all sets together should reach
    int max_sets = 1;
    int64_t index_limit = 4;  // integers are in [0, index_limit)
  };
  // Operands are filled with random numbers, floats in [-1, 1), or integers as
  // ir/ops/typical_integers.h has them.
  // Errors: memory.
  static absl::StatusOr<std::unique_ptr<UseMemory>> Create(
      const KernelUse& use, int64_t workspace_bytes, const Options& options,
      Device& device, Stream& stream);

  int sets() const { return static_cast<int>(sets_.size()); }
  KernelArgs args(int set) const {
    return {sets_[set].operands, sets_[set].results, workspace_};
  }

 private:
  struct Set {
    std::vector<void*> operands, results;
  };
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<Set> sets_;
  void* workspace_ = nullptr;
};

}  // namespace asyra
