// A page with the loss of a training run.
#pragma once

#include <string>
#include <vector>

#include "executor/trainer.h"

namespace asyra {

// HTML without links to other files: curves of the loss, the norm and the speed
// over the steps.
std::string LossPage(const std::string& title,
                     const std::vector<TrainMetrics>& metrics);

}  // namespace asyra
