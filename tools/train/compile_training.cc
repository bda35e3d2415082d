#include "tools/train/compile_training.h"

#include "ir/support/status.h"
#include "tools/progress.h"

namespace asyra {

absl::StatusOr<CompiledTraining> CompileTraining(const CompileFlags& flags,
                                                 const RaisedModel& model) {
  ASYRA_ASSIGN_OR_RETURN(Target target, TargetOf(flags, model));
  ASYRA_ASSIGN_OR_RETURN(CompiledTraining training,
                         CompileTraining(model.raised, target.mesh,
                                         target.machine, target.options));
  if (flags.progress) Progress::Erase();
  return training;
}

absl::StatusOr<CompiledTraining> CompileSteps(const CompileFlags& flags,
                                              const RaisedModel& model) {
  ASYRA_ASSIGN_OR_RETURN(Target target, TargetOf(flags, model));
  ASYRA_ASSIGN_OR_RETURN(
      CompiledTraining training,
      CompileSteps(model.raised, target.mesh, target.machine, target.options));
  if (flags.progress) Progress::Erase();
  return training;
}

absl::StatusOr<CompileResult> CompileAccumulate(const CompileFlags& flags,
                                                const RaisedModel& model,
                                                const CompileResult& step) {
  ASYRA_ASSIGN_OR_RETURN(Target target, TargetOf(flags, model));
  return CompileAccumulate(model.raised, target.machine, target.options, step);
}

absl::StatusOr<Program> CompileBeside(const CompileFlags& flags,
                                      const RaisedModel& model,
                                      TrainOptions::What what,
                                      const Program& step) {
  ASYRA_ASSIGN_OR_RETURN(Target target, TargetOf(flags, model));
  return CompileBeside(model.raised, target.machine, target.options, what,
                       step);
}

absl::StatusOr<TrainingPrograms> ProgramsOf(const CompiledTraining& training,
                                            const CompileFlags& flags) {
  ASYRA_ASSIGN_OR_RETURN(CompileOptions options, OptionsOf(flags));
  return ProgramsOf(training, options, flags.model, flags.machine);
}

}  // namespace asyra
