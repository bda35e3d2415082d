// The lines and files that a run of training leaves.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "executor/trainer.h"
#include "ir/support/status.h"
#include "nlohmann/json.hpp"
#include "simulator/report/profile.h"
#include "tools/train/log_file.h"
#include "tools/train/train_settings.h"

namespace asyra {

// Prints a line for each of some steps, appends each to the log, and writes all
// of them at the end. Of one rank.
class TrainProgress {
 public:
  // Reports a run that ends with step `steps`. The settings outlive it.
  TrainProgress(const TrainSettings& settings, int64_t steps)
      : settings_(settings), steps_(steps) {}

  // Opens the log, if there is one. Error: the system's.
  absl::Status Begin();
  void Add(const TrainMetrics& one);
  void AddEvaluation(int64_t step, double loss);
  void AddCheckpoint(int64_t step, const std::string& folder);
  // The files that were asked for. `timelines` are for the page.
  absl::Status Write(const std::string& title,
                     std::vector<Profile> timelines = {}) const;

  // Error: lines of the log that could not be written.
  absl::Status CheckLog() const { return Annotate(log_.Check(), "--log"); }

  // Returns the metrics for --csv, --html or --check, if one needs them.
  const std::vector<TrainMetrics>& metrics() const { return metrics_; }

 private:
  void Log(const nlohmann::ordered_json& line);

  const TrainSettings& settings_;
  int64_t steps_, every_ = 10;
  LogFile log_;
  std::vector<TrainMetrics> metrics_;
  std::vector<std::pair<int64_t, double>> evaluations_;
  bool is_first_ = true;
};

}  // namespace asyra
