// Sensitivity: the makespan if one number of the machine were better.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

struct Sensitivity {
  std::string key;       // "gpu.hbm_gbps" or "nvlink", as edits name it
  double value = 0;      // now; 0 where the key is a group of numbers
  double factor = 1;     // by which it was multiplied
  double change_us = 0;  // of the makespan then
  // d ln makespan / d ln value by that finite difference: -1 where the whole
  // makespan shrinks as the number grows.
  double elasticity = 0;
  std::string error;  // why the machine cannot have only this number changed
};

struct SensitivityOptions {
  CostOptions costs;
  double step = 0.1;  // numbers are raised by this part of them
  // Remakes the program for other costs; empty: it stays unchanged. The faster
  // of both counts, also on the unchanged machine.
  std::function<absl::StatusOr<Program>(const CostModel& costs)> retune;
};

// One entry per number of the machine file that has an effect, and one per
// group of them (machine_edit.h), the strongest first, then those that follow
// from others (the bf16 peak, from SMs, clock and flops per clock). Numbers
// that are 0 have no entry. The schedule of `program` is not searched again.
// The machine is that of `machine` with `edits`. A number is raised, or lowered
// where the file would not be valid otherwise.
// Errors: those of LoadMachine and `retune`, a program that takes no time.
absl::StatusOr<std::vector<Sensitivity>> Sensitivities(
    const Program& program, const std::string& machine,
    absl::Span<const std::string> edits,
    const SensitivityOptions& options = {});

// A table, ends with a newline.
std::string SensitivityReport(absl::Span<const Sensitivity> sensitivities);

}  // namespace asyra
