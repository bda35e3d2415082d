// The report of asyra-run, as text and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "executor/run.h"
#include "simulator/report/step_shape.h"
#include "tools/report/compare_single.h"
#include "tools/run/check_outputs.h"

namespace asyra {

// Another program that ran in turn with the reported one.
struct AgainstReport {
  std::string name;
  RunResult run;
};

struct RunReport {
  std::string model;
  std::string device;
  const Program* program = nullptr;
  StepShape step;
  // Weights without data in the model, and how many of them got random values.
  std::vector<std::string> lacking_weights;
  size_t random_weights = 0;
  std::vector<Tensor> outputs;
  std::vector<std::string> written;  // a file for each of them, or none
  std::optional<GateResult> gate;    // the gate that has chosen `program`
  std::optional<RunResult> run;      // of the executor
  std::vector<AgainstReport> against;
  // Times of the reported program and then each of `against`, by the simulator;
  // empty if no machine was named.
  std::vector<double> predicted_us;
  std::vector<OffSingle> off_single;  // if it was asked for
  std::optional<CheckedOutputs> checked;
};

struct StepTimes {
  double median_us = 0, min_us = 0, max_us = 0;
};
// Summarises the times of at least one step.
StepTimes Summarize(const std::vector<double>& step_us);

std::string ToText(const RunReport& report);

// One object: model, device, ranks, stage, ops, lacking_weights,
// random_weights; step {batch, tokens, dtype} where it is known, and
// tokens_per_s of the median; steps {count, median_us,
// min_us, max_us}, copies_us {inputs, outputs} (RunResult; of the inputs the
// median), first_step_us, memory_bytes {arena, resident,
// workspace, total} of one rank and, as measured, used_bytes of the same and
// device_bytes (MemoryUse), collectives [{op, count, asked, ran, obstacle}]
// with what carried them, fallback_ops, fallback_collectives and split_fusions,
// where the executor ran; gate (tools/run/run_gate.h), where one has chosen the
// program; outputs [{name, dtype, shape}], each with a summary or, where they
// were checked, max_abs_error, max_rel_error, wrong (elements), rtol and atol,
// and then `passed` for all of them; `file` where it was written; off_single
// [{name, error, largest}]; in_turn
// [{name, predicted_us, steps, ratio}] of all programs that ran, the reported
// one first, with its median over that of each.
std::string ToJson(const RunReport& report);

}  // namespace asyra
