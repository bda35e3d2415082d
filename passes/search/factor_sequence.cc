#include "passes/search/factor_sequence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "ir/split_axes.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/search/mesh_order.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/planned_time.h"

namespace asyra {
namespace {

// The axis that shards tokens; -1 where there is none of several devices.
AxisId SequenceAxis(const Mesh& mesh) {
  for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) {
    if (RoleOf(mesh.name(axis)) == AxisRole::kSequence && !IsPart(mesh, axis) &&
        mesh.size(axis) > 1) {
      return axis;
    }
  }
  return -1;
}

// The number of devices that may share the heads of every attention: they and
// those of model axes divide its heads of keys. 0: there is no attention.
int64_t MostHeads(const Program& model) {
  int64_t heads = 0;
  for (const Op& op : model.ops) {
    if (op.def->name != "attention") continue;
    heads = std::gcd(heads, model.type(op.operands[1]).size(2));
  }
  int64_t devices = 1;
  for (const Mesh::Axis& axis : model.mesh.axes()) {
    if (RoleOf(axis.name) == AxisRole::kModel) devices *= axis.size;
  }
  return heads / std::gcd(heads == 0 ? 1 : heads, devices);
}

// The devices of an axis that are neighbours on a host.
int64_t OnAHost(const Mesh& mesh, AxisId axis, int64_t gpus_per_host) {
  int64_t stride = 1;
  for (AxisId inner = axis + 1; inner < mesh.num_axes(); ++inner) {
    stride *= mesh.size(inner);
  }
  return std::gcd(std::max<int64_t>(gpus_per_host / stride, 1),
                  mesh.size(axis));
}

// Sizes that the axis for heads may have.
std::set<int64_t> Sizes(const Program& model, AxisId axis,
                        int64_t gpus_per_host) {
  const int64_t size = model.mesh.size(axis);
  int64_t heads = std::gcd(MostHeads(model), size);
  int64_t host = OnAHost(model.mesh, axis, gpus_per_host);
  std::set<int64_t> sizes = {heads, std::gcd(heads, host)};
  std::erase_if(sizes, [&](int64_t one) { return one < 2 || one == size; });
  return sizes;
}

bool IsOpen(const CompileOptions& options) {
  return options.factor_sequence && options.sharding.pins.empty() &&
         options.sharding.experts.empty() && !options.sharding.propagate;
}

}  // namespace

absl::StatusOr<Mesh> FactorSequence(const CompileOptions& options,
                                    const Program& model,
                                    const Machine& machine,
                                    PassContext& context) {
  const Mesh& mesh = model.mesh;
  AxisId axis = SequenceAxis(mesh);
  if (axis < 0 || !IsOpen(options) || MostHeads(model) == 0) return mesh;
  std::set<int64_t> sizes = Sizes(model, axis, machine.gpus_per_host);
  if (sizes.empty()) return mesh;
  Program trial = ShortTrial(model);
  auto us_over = [&](const Mesh& over) -> absl::StatusOr<double> {
    context.Begin("simulating the mesh " + ToString(over));
    trial.mesh = over;
    ASYRA_ASSIGN_OR_RETURN(
        Unscheduled step,
        SimulateUnscheduled(options, trial, machine, context.dim_names,
                            /*overlapped=*/true));
    return step.us;
  };
  absl::StatusOr<double> whole_us = us_over(mesh);
  Mesh best = mesh;
  double best_us = whole_us.ok() ? kFormPays * *whole_us : HUGE_VAL;
  for (int64_t size : sizes) {
    AxisSplit split = {mesh.name(axis), size, kRowsPart};
    ASYRA_ASSIGN_OR_RETURN(Program factored, SplitAxes(trial, {&split, 1}));
    absl::StatusOr<double> us = us_over(factored.mesh);
    trial.mesh = mesh;
    if (!us.ok() || *us >= best_us) continue;
    best = factored.mesh;
    best_us = *us;
  }
  if (best == mesh) return mesh;
  context.Remark(
      "mesh {}: axis {} as two, so that rows and heads of attention are "
      "sharded "
      "apart; with a few layers {} before scheduling, {} with the axis whole",
      ToString(best), mesh.name(axis), TimeText(best_us),
      whole_us.ok() ? TimeText(*whole_us) : "impossible");
  return best;
}

}  // namespace asyra
