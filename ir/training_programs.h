// The programs of a training: the compiler makes them (passes/training.h), a
// folder keeps them (executor/train/training_folder.h), a Trainer runs them
// (executor/trainer.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"

namespace asyra {

// The value that tells whether a step is finite: one that is not changes
// nothing.
enum class StepGuard : uint8_t {
  kNorm,  // the norm of all gradients
  kLoss,  // no update waits for the gradients of other params
};

// Facts about a training beside its programs. Zero or empty: not known.
struct TrainingInfo {
  std::string model;      // file or name
  std::string optimizer;  // adamw or sgd
  // The hash of the global program: equal on every mesh.
  std::string program_hash;
  std::string machine;      // the target of compilation
  double predicted_us = 0;  // of all batches, on that machine
  // Batches of a step, of which the last is that of step.asyra.
  int64_t batches = 1;
  // The time of the matrix flops of a batch at the dense peak of the machine's
  // devices: divided by the time of a batch, that is its MFU.
  double peak_us = 0;
  StepGuard guard = StepGuard::kNorm;
  // Notes on which weights are not trained and why, which are one, and the
  // like.
  std::vector<std::string> notes;
};

// A step that does what another one does.
struct OtherStep {
  std::string name;  // of reports, without line ends and tabs
  Program program;
};

// Programs for one mesh, with equal types of params.
struct TrainingPrograms {
  Program step;  // with the weights that have data
  Program evaluate, init;
  std::optional<Program> accumulate;
  // The step before it was scheduled, for a gate on measured steps
  // (executor/measured_gate.h).
  std::optional<Program> unscheduled;
  // Other schedules of the step, for the same gate.
  std::vector<OtherStep> candidates;
  TrainingInfo info;
};

}  // namespace asyra
