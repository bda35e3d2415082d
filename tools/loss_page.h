// A page with the loss of a training run.
#pragma once

#include <string>
#include <vector>

#include "tools/train_run.h"

namespace asyra {

// HTML without links to other files: a curve of the loss and one of the norm
// over the steps.
std::string LossPage(const std::string& title,
                     const std::vector<TrainMetrics>& metrics);

}  // namespace asyra
