// The order of mesh axes: which of them have their neighbours on one host.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "simulator/machine.h"
#include "tools/compile.h"

namespace asyra {

// `mesh` with its axes in the order in which the sharded model takes the
// shortest step before it is scheduled, as simulated with a few of its layers;
// among equals the order given. Orders that put the same devices on the same
// hosts are one. `model` has stage global; where everything fits one host, or
// no order can be sharded, the mesh as it is. Says in a remark what it chose.
absl::StatusOr<Mesh> CheapestOrder(const CompileOptions& options,
                                   const Program& model, const Mesh& mesh,
                                   const Machine& machine,
                                   PassContext& context);

}  // namespace asyra
