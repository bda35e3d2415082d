// The programs of a training run, compiled for one mesh.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/train/training_folder.h"
#include "tools/compile.h"

namespace asyra {

struct Training {
  CompiledModel step;  // TrainOptions::What::kStep
  // kAccumulate, where a step has several batches.
  std::optional<CompiledModel> accumulate;
  Program evaluate;               // kEvaluate, params as `step` has them
  Program init;                   // random values of all params
  std::vector<std::string> made;  // params that begin with values of `init`
  // Of the model: equal for all meshes.
  std::string hash;
  std::vector<std::string> notes;  // as TrainingInfo has them
};

// `flags.train` says how. The programs agree on mesh and on the types of
// params. Errors: those of the passes; memory that is too little for one of the
// programs, with the least that is enough for all; weights without data that
// are no parameters.
absl::StatusOr<Training> CompileTraining(const CompileFlags& flags,
                                         const RaisedModel& model);

// Only the step, and the program that accumulates.
absl::StatusOr<Training> CompileSteps(const CompileFlags& flags,
                                      const RaisedModel& model);

// Of a step of several batches the program of all but the last, sharded as
// `step` is and in the memory that its other states leave. Errors: those of the
// passes; states of other types than in `step`.
absl::StatusOr<CompiledModel> CompileAccumulate(const CompileFlags& flags,
                                                const RaisedModel& model,
                                                const CompiledModel& step);

// The model as `what`, its weights sharded as in `step`.
absl::StatusOr<Program> CompileBeside(const CompileFlags& flags,
                                      const RaisedModel& model,
                                      TrainOptions::What what,
                                      const Program& step);

// Gives tables of rotary embedding that have no data, those of built-in models,
// cos and sin of position * base^(-i / size).
void AddRotaryTables(double base, Program* program);

// What a trainer takes. Errors: a machine that is not known.
absl::StatusOr<TrainingPrograms> ProgramsOf(const Training& training,
                                            const CompileFlags& flags);

}  // namespace asyra
