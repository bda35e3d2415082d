// Compiles a training: its step and the programs beside it, for one mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/mesh.h"
#include "ir/training_programs.h"
#include "passes/compile.h"
#include "simulator/machine/machine.h"

namespace asyra {

struct CompiledTraining {
  CompileResult step;  // TrainOptions::What::kStep
  // kAccumulate, where a step has several batches.
  std::optional<CompileResult> accumulate;
  Program evaluate;  // kEvaluate, params as `step` has them
  Program init;      // random first values of all params
  // The hash of the model's ops and weights: equal for all meshes.
  std::string model_hash;
  std::vector<std::string> notes;  // as TrainingInfo has them
};

// `options.train` says how; `mesh` and `machine` are as Compile takes them. The
// programs agree on the mesh and on the types of params. Nothing is printed or
// written of the programs beside the step (CompileOptions::manager). With
// `options.passes` that leave the step unscheduled there is only the step.
// Errors: those of Compile; memory that is too little for one of the programs,
// with the least that is enough for all; weights without data that are no
// parameters; InvalidArgument without `options.train`.
absl::StatusOr<CompiledTraining> CompileTraining(const RaisedProgram& model,
                                                 const Mesh& mesh,
                                                 const Machine& machine,
                                                 const CompileOptions& options);

// Returns what is said of the parameters: TrainingInfo::notes. Errors: those of
// the passes of training.
absl::StatusOr<std::vector<std::string>> ParameterNotes(
    const TrainOptions& train, const RaisedProgram& model);

// Compiles only the step, and the program that accumulates. Errors: as above.
absl::StatusOr<CompiledTraining> CompileSteps(const RaisedProgram& model,
                                              const Mesh& mesh,
                                              const Machine& machine,
                                              const CompileOptions& options);

// Compiles the program of all batches of a step but the last, sharded as `step`
// is and in the memory that its other states leave. Errors: those of the
// passes; states of other types than in `step`.
absl::StatusOr<CompileResult> CompileAccumulate(const RaisedProgram& model,
                                                const Machine& machine,
                                                const CompileOptions& options,
                                                const CompileResult& step);

// Compiles the model as `what`, its weights sharded as in `step`, without a
// search: for a program that runs seldom. Errors: those of the passes; params
// of other types than in `step`.
absl::StatusOr<Program> CompileBeside(const RaisedProgram& model,
                                      const Machine& machine,
                                      const CompileOptions& options,
                                      TrainOptions::What what,
                                      const Program& step);

// Times of a step whose gradients are those of several batches, by simulation.
struct BatchTimes {
  int64_t batches = 1;
  double accumulate_us = 0;  // each batch but the last
  double last_us = 0;        // with the update
  double clear_us = 0;       // the sums, once
  int64_t sum_bytes = 0;     // of a device

  double total_us() const {
    return clear_us + static_cast<double>(batches - 1) * accumulate_us +
           last_us;
  }
};
// Returns the times of two programs that were simulated on the same machine.
BatchTimes BatchTimesOf(const CompileResult& accumulate,
                        const CompileResult& last, int64_t batches);

// Returns the bytes of a device that stay from step to step: params, states,
// and sums of gradients; with `sums_only` those sums alone.
int64_t KeptBytes(const Program& program, bool sums_only);

// Returns the programs as a Trainer and a folder take them, with the weights of
// the step. `options` are those of CompileTraining; `model` and `machine` are
// names for reports.
TrainingPrograms ProgramsOf(const CompiledTraining& training,
                            const CompileOptions& options,
                            const std::string& model,
                            const std::string& machine);

}  // namespace asyra
