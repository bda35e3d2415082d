// Results of probes (executor/device.h) while a step runs: the first of a rank,
// in memory that its host and its GPU share.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/cuda/device/probes.h"

namespace asyra::cuda {

class ProbeResults {
 public:
  static absl::StatusOr<std::unique_ptr<ProbeResults>> Create();
  ~ProbeResults();

  // Returns a number for what a probe looks at, and its name; the name is read
  // when something was found.
  int Add(const std::string* label);
  ProbeResult* shared() const { return shared_; }
  // Returns the first result since the last call, or OK. Of a synchronized
  // stream.
  absl::Status Take();

 private:
  ProbeResults() = default;
  ProbeResult* shared_ = nullptr;
  std::deque<const std::string*> labels_;  // from number 1
};

}  // namespace asyra::cuda
