// The order of mesh axes: which of them have their neighbours on one host.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/compile.h"
#include "simulator/machine.h"

namespace asyra {

// The model's mesh with its axes in the order in which the sharded model takes
// the shortest step before it is scheduled, as simulated with a few of its
// layers; among equals the order given. Orders that put the same devices on the
// same hosts are one. `model` has stage global; where everything fits one host,
// or no order can be sharded, the mesh as it is. Says in a remark what it
// chose.
absl::StatusOr<Mesh> LowestCostOrder(const CompileOptions& options,
                                     const Program& model,
                                     const Machine& machine,
                                     PassContext& context);

// A model of stage global with a few of its layers: what layers repeat, these
// tell.
Program ShortTrial(const Program& model);

// Of the weights that a device holds.
int64_t WeightBytes(const Program& partitioned);

// The step of a program of stage global over its mesh, partitioned but not
// scheduled, as simulated.
struct Unscheduled {
  double us = 0;
  int64_t weight_bytes = 0;  // of a device
};
absl::StatusOr<Unscheduled> SimulateUnscheduled(const CompileOptions& options,
                                                Program program,
                                                const Machine& machine,
                                                const DimNames& dim_names);

}  // namespace asyra
