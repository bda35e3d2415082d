// Compiles a model given on the command line: reads files and built-in models,
// then calls passes/compile.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dim_names.h"
#include "ir/op_sources.h"
#include "ir/program.h"
#include "passes/compile.h"
#include "tools/compile_flags.h"

namespace asyra {

struct LoadedModel {
  Program program;
  // Weights without data; those of an .onnx file are inputs of it
  // (frontends/onnx/import.h).
  std::vector<std::string> lacking_weights;
  // The names of an .onnx file for dimensions of its inputs; empty for other
  // models.
  DimNames dim_names;
  OpSources op_sources;  // of an .onnx file
};

// The model alone: read, imported or built. Of the flags, `model`, `dims`,
// `data`, `weights`, `recorded`, `given_shapes` and `expert_capacity` matter.
absl::StatusOr<LoadedModel> LoadModel(const CompileFlags& flags);

// A model before sharding, to be compiled for several meshes and machines.
struct RaisedModel {
  Program imported;
  std::vector<std::string> lacking_weights;  // LoadedModel
  RaisedProgram raised;
};
absl::StatusOr<RaisedModel> LoadRaised(const CompileFlags& flags);

struct CompiledModel : CompileResult {
  Program imported;                          // before Raise
  std::vector<std::string> lacking_weights;  // LoadedModel
  DimNames dim_names;                        // LoadedModel
  Program raised;  // fused meanings; equal to `imported` in later stages
  // SlowerText, obstacles of copy engines, slow kernels; `remarks` end with
  // them.
  std::vector<std::string> notes;
};

// The mesh, machine and options that the flags ask for. With `set` that changes
// the machine, the options have the unchanged one as their neighbour.
struct Target {
  Mesh mesh;
  Machine machine;
  CompileOptions options;
};
// Returns them. Errors
// name the flag: those of OptionsOf, MeshOf, LoadMachine, CheckRanks and of
// pins; mesh flags for a program that is partitioned already.
absl::StatusOr<Target> TargetOf(const CompileFlags& flags,
                                const RaisedModel& model);

// Adds the model before and the notes to a result.
CompiledModel Told(const CompileFlags& flags, const RaisedModel& model,
                   CompileResult result);

// Checks the machine's name and edits, and the mesh: called before a model is
// read, which may take long.
absl::Status CheckTarget(const CompileFlags& flags);

// A partitioned program file is only scheduled, and a scheduled one is only
// simulated; mesh flags are then refused. `model` was made with the same
// `passes` and the same flags of LoadModel; it may be shared by threads.
absl::StatusOr<CompiledModel> Compile(const CompileFlags& flags,
                                      const RaisedModel& model);
absl::StatusOr<CompiledModel> Compile(const CompileFlags& flags);
// The same without trying the schedule of the unchanged machine.
absl::StatusOr<CompiledModel> CompileAlone(const CompileFlags& flags,
                                           const RaisedModel& model);

// A line for each reason why collectives of the program that ask for copy
// engines are estimated as the library's; they are among the remarks.
std::vector<std::string> CopyEngineObstacles(const CompileResult& result);

// "slower than unscheduled by 12.3 %: --tiles 4 was asked for", with the flags
// that forced the schedule; empty if it is not slower.
std::string SlowerText(const CompileFlags& flags, const CompileResult& result);

}  // namespace asyra
