// What the makespan would be if one number of the machine were better.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost_model.h"

namespace asyra {

struct Sensitivity {
  std::string key;       // "gpu.hbm_gbps", as edits name it
  double value = 0;      // now
  double factor = 1;     // by which it was multiplied
  double change_us = 0;  // of the makespan then
  // d ln makespan / d ln value by that finite difference: -1 where the whole
  // makespan shrinks as the number grows.
  double elasticity = 0;
  std::string error;  // why the machine cannot have only this number changed
};

// One entry per number of the machine file that has an effect, the strongest
// first, then those that others fix (the bf16 peak, by SMs, clock and flops per
// clock). Numbers that are 0 have none. `program` is simulated as it stands:
// its schedule is not searched again. The machine is that of `machine` with
// `edits`. Each number is raised by `step` (0.1: by 10 %), or lowered where the
// file would not be valid otherwise.
absl::StatusOr<std::vector<Sensitivity>> Sensitivities(
    const Program& program, const std::string& machine,
    absl::Span<const std::string> edits, const CostOptions& options = {},
    double step = 0.1);

// A table, ends with a newline.
std::string SensitivityReport(absl::Span<const Sensitivity> sensitivities);

}  // namespace asyra
