// Results of probes (executor/device.h), and of kernels that check their
// operands, while a step runs: the first of a rank, in memory that its host and
// its GPU share.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/cuda/device/probes.h"

namespace asyra::cuda {

class ProbeResults {
 public:
  static absl::StatusOr<std::unique_ptr<ProbeResults>> Create();
  ~ProbeResults();

  // Returns a number for what a kernel looks at. `label`, which is read when
  // something was found, is before the error: that of `describe`, or that of a
  // probe. Both are read until Remove.
  using Describe = std::function<absl::Status(const ProbeResult&)>;
  int Add(const std::string* label, Describe describe = nullptr);
  void Remove(int number) { entries_[number - 1] = {}; }
  ProbeResult* shared() const { return shared_; }
  // Returns the first result since the last call, or OK. Of a synchronized
  // stream.
  absl::Status Take();

 private:
  ProbeResults() = default;
  ProbeResult* shared_ = nullptr;
  struct Entry {
    const std::string* label = nullptr;  // null: removed
    Describe describe;
  };
  std::deque<Entry> entries_;  // from number 1
};

}  // namespace asyra::cuda
