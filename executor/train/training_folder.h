// The folder of a training that asyra-opt --train writes:
//
//   step.asyra        loss, gradients and updates, of the last of the batches
//                     whose gradients make a step
//   unscheduled.asyra step before it was scheduled; may be missing
//   candidate1.asyra  step as it was scheduled otherwise, the next fastest;
//                     candidate2.asyra, ...: as many as training.json names
//   accumulate.asyra  loss and gradients of another one, added up; missing
//                     where a step has one batch
//   evaluate.asyra    the loss alone
//   init.asyra        random first values of all params
//   step.safetensors  weights with data; may be missing
//   training.json     what follows from the model
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// What tells whether a step is finite: one that is not changes nothing.
enum class StepGuard : uint8_t {
  kNorm,  // that of all gradients
  kLoss,  // no update waits for the gradients of other params
};

// What training.json says. Zero or empty: not known.
struct TrainingInfo {
  std::string model;      // file or name
  std::string optimizer;  // adamw or sgd
  // Of the global program: equal on every mesh.
  std::string program_hash;
  std::string machine;      // that it was compiled for
  double predicted_us = 0;  // of all batches, on that machine
  // Batches of a step, of which the last is that of step.asyra.
  int64_t batches = 1;
  // What the matrix flops of a batch take at the dense peak of the machine's
  // devices: divided by the time of a batch, that is its MFU.
  double peak_us = 0;
  StepGuard guard = StepGuard::kNorm;
  // Which weights are not trained and why, which are one, and the like.
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

// Errors name the file: missing, no program, another mesh than that of the
// step, params or states of other types than in the step; training.json that
// is no JSON, of another format, or names a candidate in two lines.
absl::StatusOr<TrainingPrograms> ReadTrainingFolder(const std::string& folder);

// Writes it; the folder is made, or gets these programs instead of its own.
// Errors: the system's.
absl::Status WriteTrainingFolder(const TrainingPrograms& training,
                                 const std::string& folder);

// Params of the step without data: they begin with values of `init`.
std::vector<std::string> ParamsWithoutData(const Program& step);

// "dp=2,tp=2".
std::string MeshText(const Mesh& mesh);

}  // namespace asyra
