// The lines and files that a run of training leaves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/train_run.h"
#include "tools/train_settings.h"

namespace asyra {

// Prints a line for each of some steps, and writes all of them at the end.
class TrainProgress {
 public:
  // Of `steps` steps of `tokens` tokens each. The settings outlive it.
  TrainProgress(const TrainSettings& settings, int64_t tokens, int64_t steps)
      : settings_(settings), tokens_(tokens), steps_(steps) {}

  void Add(const TrainMetrics& one);
  // The files that were asked for.
  absl::Status Write(const std::string& title) const;

  const std::vector<TrainMetrics>& metrics() const { return metrics_; }

 private:
  double TokensPerSecond(const TrainMetrics& one) const;

  const TrainSettings& settings_;
  int64_t tokens_, steps_;
  std::vector<TrainMetrics> metrics_;
};

}  // namespace asyra
