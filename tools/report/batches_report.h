// A step whose gradients are those of several batches, by simulation.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "passes/training.h"
#include "simulator/report/profile.h"
#include "tools/compile.h"

namespace asyra {

struct BatchesReport : BatchTimes {
  double mfu = 0;                    // TrainingMfu of the whole
  double tokens_per_s_device = 0;    // 0: no known shape of the step
  std::string_view unit = "tokens";  // StepShape::unit
  // Bytes that a device holds: the larger of both programs, whose values are in
  // the same memory, with all params and states.
  int64_t device_bytes = 0;
};

// Both were simulated, on the same machine.
BatchesReport ReportBatches(const CompileResult& accumulate,
                            const CompiledModel& last, int64_t batches);

// An error if the step, or a batch of it before the last, needs more memory
// than a device has; it says by how much.
absl::Status CheckCapacity(const Profile& step,
                           const std::optional<BatchesReport>& batches);

std::string BatchesText(const BatchesReport& report);
nlohmann::json BatchesJson(const BatchesReport& report);

}  // namespace asyra
