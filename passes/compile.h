// The compiler: a model as a global program in, the program that the executor
// runs out. Reads no files and prints nothing; tools/compile.h does that for
// the command line. The whole pipeline, in order, is in compile.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dim_names.h"
#include "ir/mesh.h"
#include "ir/op_sources.h"
#include "ir/program.h"
#include "passes/compile_options.h"
#include "passes/compile_result.h"
#include "passes/pass_manager.h"
#include "simulator/machine/machine.h"

namespace asyra {

// A model before sharding, to be compiled for several meshes and machines.
struct RaisedProgram {
  Program program;  // unchanged if of a later stage, or with `passes`
  std::vector<std::string> remarks;
  std::vector<PassTiming> timings;
  DimNames dim_names;
  OpSources op_sources;
};
// `dim_names` are the names that the model's file gives dimensions of its
// inputs, `op_sources` what it computes values with. Errors: those of the
// passes; `expert_capacity` of a model without experts.
absl::StatusOr<RaisedProgram> Raise(Program model,
                                    const CompileOptions& options,
                                    const DimNames& dim_names = {},
                                    const OpSources& op_sources = {});

// A local program is only scheduled, one that is scheduled is only simulated;
// their mesh is their own and `mesh` must have no axes.
// Errors: a mesh that does not fit the machine, pins that are wrong, those of
// the passes and of Schedule; none of a neighbour's
// (CompileOptions::neighbour).
absl::StatusOr<CompileResult> Compile(const RaisedProgram& model,
                                      const Mesh& mesh, const Machine& machine,
                                      const CompileOptions& options);

}  // namespace asyra
