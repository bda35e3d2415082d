// What asyra-train is told to do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "executor/run.h"
#include "tools/compile.h"

namespace asyra {

struct TrainSettings {
  CompileFlags compile;
  TrainOptions train;
  std::string data, check, csv, html, device = "cpu";
  int64_t steps = 0, warmup = -1, seed = 1;
  double rate = 0, final = 0.1, rtol = 2e-4, timeout_s = 60;
  int64_t every = 10;
  bool random_weights = false;
  // Flags that were given and only matter when a model is compiled.
  std::vector<std::string> of_compiling;
};

// Adds the flags of the run; those of compiling and of the optimizer are
// AddCompileFlags and AddTrainFlags.
void AddSettings(CLI::App& app, TrainSettings* settings);

// Errors, each of one flag or two that do not go together. Files that are
// written at the end must be possible to write.
absl::Status CheckSettings(const TrainSettings& settings);

absl::StatusOr<std::unique_ptr<Platform>> PlatformOf(
    const TrainSettings& settings);

// The learning rate of a step, from 0: linear over the first `warmup` steps,
// then a cosine down to a part of the peak.
double RateAt(const TrainSettings& settings, int64_t warmup, int64_t step);

}  // namespace asyra
