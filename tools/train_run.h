// Runs a training step again and again, on ranks that are threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/run.h"
#include "tools/training.h"

namespace asyra {

struct TrainMetrics {
  int64_t step = 0;  // from 1
  double loss = 0;   // mean over the labels of the step
  double norm = 0;   // of all gradients, before clipping
  double seconds = 0;
};

// Data inputs of a step by name, whole; `rate` is added. All ranks ask for the
// same ones.
using TrainData = std::vector<std::pair<std::string, Tensor>>;

struct TrainRun {
  const Training* training = nullptr;
  Platform* platform = nullptr;
  int64_t steps = 0;
  int64_t seed = 1;
  double timeout_s = 60;
  std::function<absl::StatusOr<TrainData>(int64_t step)> data;  // from 0
  std::function<double(int64_t step)> rate;                     // from 0
  // Told after each step, by one rank.
  std::function<void(const TrainMetrics&)> report;
  // A program on the same params that runs once at the end, or null, and its
  // data inputs.
  const Program* last = nullptr;
  TrainData last_data;
};

struct TrainResult {
  std::vector<Tensor> last_outputs;  // whole
  MemoryUse memory;                  // of one rank, as planned
};

// Errors: those of the executor; data inputs that the program does not have,
// or that are missing.
absl::StatusOr<TrainResult> Train(const TrainRun& run);

}  // namespace asyra
