// A page with the loss of a training run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "executor/trainer.h"
#include "simulator/report/profile.h"

namespace asyra {

struct LossPageData {
  std::string title;
  std::vector<TrainMetrics> metrics;
  std::vector<std::pair<int64_t, double>> evaluations;  // step, loss
  // A step as StepTimelines gives it; may be empty.
  std::vector<Profile> timelines;
};

// HTML without links to other files: curves of the loss, the norm and the speed
// over the steps, and the timeline of a step. A curve of more than some
// thousand steps has the lowest and the highest of some neighbours each.
std::string LossPage(const LossPageData& data);

}  // namespace asyra
