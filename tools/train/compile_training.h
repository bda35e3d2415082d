// Compiles a training as the flags of the command line say it.
#pragma once

#include "absl/status/statusor.h"
#include "passes/training.h"
#include "tools/compile.h"

namespace asyra {

// Compiles like the functions of passes/training.h; `flags.train` says how.
// Errors: theirs, and those of TargetOf.
absl::StatusOr<CompiledTraining> CompileTraining(const CompileFlags& flags,
                                                 const RaisedModel& model);
absl::StatusOr<CompiledTraining> CompileSteps(const CompileFlags& flags,
                                              const RaisedModel& model);
absl::StatusOr<CompileResult> CompileAccumulate(const CompileFlags& flags,
                                                const RaisedModel& model,
                                                const CompileResult& step);
absl::StatusOr<Program> CompileBeside(const CompileFlags& flags,
                                      const RaisedModel& model,
                                      TrainOptions::What what,
                                      const Program& step);

// Returns what a trainer takes. Errors: flags that are no options.
absl::StatusOr<TrainingPrograms> ProgramsOf(const CompiledTraining& training,
                                            const CompileFlags& flags);

}  // namespace asyra
