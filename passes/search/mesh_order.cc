#include "passes/search/mesh_order.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "ir/type.h"
#include "passes/analysis/shorten.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/shard/walk_keys.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

constexpr int kLayers = 2;

// Returns the placement on hosts of groups over each set of axes, in the order
// of `names`. Equal for orders that cost the same.
std::string Placement(const Mesh& mesh, const Mesh& names, int gpus_per_host) {
  std::string placement;
  for (int set = 1; set < 1 << names.num_axes(); ++set) {
    AxisList axes;
    for (int i = 0; i < names.num_axes(); ++i) {
      if ((set >> i & 1) == 0) continue;
      axes.push_back(mesh.Find(names.name(static_cast<AxisId>(i))));
    }
    GroupSpan span = SpanOf(mesh, axes, gpus_per_host);
    placement += fmt::format("{}/{} ", span.hosts, span.per_host);
  }
  return placement;
}

// Returns orders of the axes that differ in cost; `mesh` itself is the first.
absl::StatusOr<std::vector<Mesh>> Orders(const Mesh& mesh, int gpus_per_host) {
  std::vector<int> order(mesh.num_axes());
  std::iota(order.begin(), order.end(), 0);
  std::vector<Mesh> orders;
  std::set<std::string> seen;
  do {
    std::vector<Mesh::Axis> axes;
    for (int axis : order) axes.push_back(mesh.axes()[axis]);
    ASYRA_ASSIGN_OR_RETURN(Mesh trial, Mesh::Create(std::move(axes)));
    if (seen.insert(Placement(trial, mesh, gpus_per_host)).second) {
      orders.push_back(std::move(trial));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

}  // namespace

int64_t WeightBytes(const Program& program) {
  int64_t bytes = 0;
  for (const Input& input : program.inputs) {
    if (!IsWeight(input)) continue;
    bytes += LocalBytes(program.type(input.value), program.mesh);
  }
  return bytes;
}

Program ShortTrial(const Program& model) { return Shorten(model, kLayers); }

namespace {

// Returns the time of a form of a partitioned program.
absl::StatusOr<double> OverlappedUs(Program program, const AttentionForm& form,
                                    PassContext context) {
  Pipeline passes;
  if (form.heads > 1) passes = HeadPasses(form.heads);
  if (form.walk > 1) passes.push_back(WalkPasses(form.walk)[0]);
  passes.push_back(MakePass("start_collectives", {{"early", true}}));
  ASYRA_RETURN_IF_ERROR(RunPasses(program, passes, context));
  return Simulate(program, *context.costs).makespan_us;
}

}  // namespace

absl::StatusOr<Unscheduled> SimulateUnscheduled(const CompileOptions& options,
                                                Program program,
                                                const Machine& machine,
                                                const DimNames& dim_names,
                                                bool overlapped) {
  CostModel costs(machine, program.mesh, options.costs);
  PassContext context;
  context.costs = &costs;
  context.dim_names = dim_names;
  ASYRA_RETURN_IF_ERROR(
      RunPasses(program, ShardPasses(options.sharding), context));
  Unscheduled step = {Simulate(program, costs).makespan_us,
                      WeightBytes(program)};
  if (!overlapped) return step;
  std::vector<AttentionForm> forms =
      AttentionFormsOf(program, machine.gpus_per_host);
  forms.insert(forms.begin(), AttentionForm{});
  for (const AttentionForm& form : forms) {
    bool walks = form.walk == 1 || options.key_walk == "auto";
    bool splits = form.heads == 1 || options.head_parts == 0;
    if (!walks || !splits) continue;
    ASYRA_ASSIGN_OR_RETURN(double us, OverlappedUs(program, form, context));
    step.us = std::min(step.us, us);
  }
  return step;
}

absl::StatusOr<Mesh> LowestCostOrder(const CompileOptions& options,
                                     const Program& model,
                                     const Machine& machine,
                                     PassContext& context) {
  const Mesh& mesh = model.mesh;
  if (mesh.num_axes() < 2 || mesh.num_devices() <= machine.gpus_per_host) {
    return mesh;
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<Mesh> orders,
                         Orders(mesh, machine.gpus_per_host));
  if (orders.size() < 2) return mesh;
  Program trial = ShortTrial(model);
  const Mesh* best = nullptr;
  double best_us = 0, worst_us = 0;
  for (const Mesh& order : orders) {
    context.Begin("simulating the mesh " + ToString(order));
    trial.mesh = order;
    auto step = SimulateUnscheduled(options, trial, machine, context.dim_names);
    if (!step.ok()) continue;
    worst_us = std::max(worst_us, step->us);
    if (best == nullptr || step->us < best_us) {
      best = &order;
      best_us = step->us;
    }
  }
  if (best == nullptr) return mesh;
  context.Remark(
      "mesh {}: of {} orders of its axes over hosts the fastest unscheduled, "
      "the slowest takes {:.2f} times as long",
      ToString(*best), orders.size(), worst_us / best_us);
  return *best;
}

}  // namespace asyra
