// A step whose gradients are those of several batches, by simulation.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "simulator/report/profile.h"
#include "tools/compile.h"

namespace asyra {

struct BatchesReport {
  int64_t batches = 1;
  double accumulate_us = 0;          // each batch but the last
  double last_us = 0;                // with the update
  double clear_us = 0;               // the sums, once
  double mfu = 0;                    // TrainingMfu of the whole
  double tokens_per_s_device = 0;    // 0: no known shape of the step
  std::string_view unit = "tokens";  // StepShape::unit
  int64_t sum_bytes = 0;             // of a device
  // That a device holds: the larger of both programs, whose values are in the
  // same memory, with all params and states.
  int64_t device_bytes = 0;

  double total_us() const {
    return clear_us + static_cast<double>(batches - 1) * accumulate_us +
           last_us;
  }
};

// Both were simulated, on the same machine.
BatchesReport ReportBatches(const CompiledModel& accumulate,
                            const CompiledModel& last, int64_t batches);

// An error if the step, or a batch of it before the last, needs more memory
// than a device has; it says by how much.
absl::Status CheckCapacity(const Profile& step,
                           const std::optional<BatchesReport>& batches);

std::string BatchesText(const BatchesReport& report);
nlohmann::json BatchesJson(const BatchesReport& report);

}  // namespace asyra
