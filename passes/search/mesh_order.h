// The order of mesh axes, which decides whose neighbours share a host.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/compile_options.h"
#include "passes/pass.h"
#include "simulator/machine/machine.h"

namespace asyra {

// Returns the model's mesh with its axes in the order of the shortest
// unscheduled step, simulated with a few layers; among equals the given order.
// Orders that put the same devices on the same hosts are tried once. `model`
// has stage global. Returns the mesh unchanged if all devices fit one host or
// no order can be sharded. A remark states the choice.
absl::StatusOr<Mesh> LowestCostOrder(const CompileOptions& options,
                                     const Program& model,
                                     const Machine& machine,
                                     PassContext& context);

// Returns a model of stage global with a few of its layers, which represent the
// others.
Program ShortTrial(const Program& model);

// Returns the bytes of the weights that a device holds.
int64_t WeightBytes(const Program& partitioned);

// The step of a program of stage global over its mesh, partitioned but not
// scheduled, as simulated. With `overlapped` it is the shortest of that and of
// the forms of attention that hide collectives (passes/shard/walk_keys.h),
// whose collectives begin as early as they can.
struct Unscheduled {
  double us = 0;
  int64_t weight_bytes = 0;  // of a device
};
absl::StatusOr<Unscheduled> SimulateUnscheduled(const CompileOptions& options,
                                                Program program,
                                                const Machine& machine,
                                                const DimNames& dim_names,
                                                bool overlapped = false);

}  // namespace asyra
