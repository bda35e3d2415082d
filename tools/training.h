// The programs of a training run, compiled for one mesh.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/compile.h"

namespace asyra {

struct Training {
  CompiledModel step;             // TrainOptions::What::kStep
  Program evaluate;               // kEvaluate, params as `step` has them
  Program init;                   // random values of all params
  std::vector<std::string> made;  // params that begin with values of `init`
};

// `flags.train` says how. The programs agree on mesh and on the types of
// params. Errors: those of the passes; weights without data that are no
// parameters.
absl::StatusOr<Training> CompileTraining(const CompileFlags& flags,
                                         const RaisedModel& model);

// The model as `what`, its weights sharded as in `step`.
absl::StatusOr<Program> CompileBeside(const CompileFlags& flags,
                                      const RaisedModel& model,
                                      TrainOptions::What what,
                                      const Program& step);

// The rows of the smallest table that `tokens` themselves look up: each token
// is below it. Tables of positions do not count. INT64_MAX where there is none.
int64_t TokenLimit(const Program& program, ValueId tokens);

// The classes of the logits that have labels: each label is below it, as far as
// the program says. INT64_MAX where it has no cross entropy.
int64_t ClassLimit(const Program& program);

// Gives tables of rotary embedding that have no data, those of built-in models,
// cos and sin of position * base^(-i / size).
void AddRotaryTables(double base, Program* program);

// All params begin with values of `init`, also those that a file has values of.
void StartFromInit(Training* training);

// Writes step.asyra, evaluate.asyra, init.asyra, their weights beside them, and
// training.json into `folder`, which is made.
absl::Status WriteTraining(const Training& training, const CompileFlags& flags,
                           const std::string& folder);

// Reads such a folder; of `step` only the program is there.
absl::StatusOr<Training> ReadTraining(const std::string& folder);

}  // namespace asyra
