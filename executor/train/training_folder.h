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

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "ir/training_programs.h"

namespace asyra {

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
