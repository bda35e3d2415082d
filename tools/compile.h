// From a model as the command line names it to a scheduled program: files and
// built-in models are read here, the rest is passes/compile.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dim_names.h"
#include "ir/program.h"
#include "passes/compile.h"
#include "tools/compile_flags.h"

namespace asyra {

struct LoadedModel {
  Program program;
  // The weights that the model came without data for; those of an .onnx file
  // are inputs of it (frontends/onnx/import.h).
  std::vector<std::string> lacking_weights;
  // What an .onnx file calls dimensions of its inputs; of others nothing.
  DimNames dim_names;
};

// The model alone: read, imported or built. Of the flags, `model`, `dims`,
// `data`, `weights`, `recorded` and `expert_capacity` matter.
absl::StatusOr<LoadedModel> LoadModel(const CompileFlags& flags);

// A model before mesh and machine matter, to be compiled for several.
struct RaisedModel {
  Program imported;
  std::vector<std::string> lacking_weights;  // LoadedModel
  RaisedProgram raised;
};
absl::StatusOr<RaisedModel> LoadRaised(const CompileFlags& flags);

struct CompiledModel : CompileResult {
  Program imported;                          // as it came in
  std::vector<std::string> lacking_weights;  // LoadedModel
  DimNames dim_names;                        // LoadedModel
  Program raised;  // fused meanings; equal to `imported` in later stages
};

// What is wrong with the machine's name and edits, or the mesh: to be said
// before a model is read, which may take long.
absl::Status CheckTarget(const CompileFlags& flags);

// A program file that is partitioned already is only scheduled, and one that
// is scheduled is only simulated; mesh flags are then refused. `model` is of
// the same `passes` and of what LoadModel reads; it may be shared by threads.
// Where the machine is changed by `set`, what is found for it unchanged is
// tried as well: a better machine is no slower.
absl::StatusOr<CompiledModel> Compile(const CompileFlags& flags,
                                      const RaisedModel& model);
absl::StatusOr<CompiledModel> Compile(const CompileFlags& flags);
// The same, for the machine as it is changed alone.
absl::StatusOr<CompiledModel> CompileAlone(const CompileFlags& flags,
                                           const RaisedModel& model);

// "slower than unscheduled by 12.3 %: --tiles 4 was asked for", with what of
// the flags kept the search from doing nothing; empty where the schedule is not
// slower.
std::string SlowerText(const CompileFlags& flags, const CompiledModel& result);

}  // namespace asyra
