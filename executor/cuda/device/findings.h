// What probes (executor/device.h) find while a step runs: the first finding of
// a rank, in memory that its host and its GPU share.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/cuda/device/probes.h"

namespace asyra::cuda {

class Findings {
 public:
  static absl::StatusOr<std::unique_ptr<Findings>> Create();
  ~Findings();

  // A number for what a probe looks at, and its name; the name is read when
  // something was found.
  int Add(const std::string* label);
  Finding* shared() const { return shared_; }
  // The first finding since the last call, or OK. Of a synchronized stream.
  absl::Status Take();

 private:
  Findings() = default;
  Finding* shared_ = nullptr;
  std::deque<const std::string*> labels_;  // from number 1
};

}  // namespace asyra::cuda
