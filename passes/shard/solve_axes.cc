#include "passes/shard/solve_axes.h"

#include <algorithm>
#include <utility>

#include "ir/support/status.h"
#include "passes/shard/axis_use.h"
#include "passes/shard/redistribute.h"

namespace asyra {
namespace {

// Axes of more than one device. Model axes first: what they divide decides
// what remains for data axes. Inner axes before outer ones.
AxisList SolveOrder(const Mesh& mesh) {
  AxisList order;
  for (bool model : {true, false}) {
    for (int a = mesh.num_axes(); a-- > 0;) {
      auto axis = static_cast<AxisId>(a);
      AxisRole role = RoleOf(mesh.name(axis));
      bool is_model = role == AxisRole::kModel || role == AxisRole::kExpert;
      if (mesh.size(axis) > 1 && is_model == model) order.push_back(axis);
    }
  }
  return order;
}

CostedPlan Unsharded(const DimLabels& labels) {
  CostedPlan plan;
  for (const AxisRule& rule : labels.rules) {
    plan.ops.push_back({FactorAxes(rule.factors.size()),
                        std::vector<AxisList>(rule.operands.size())});
  }
  return plan;
}

// Decides two axes at a time anew, while that gains.
absl::Status Improve(ShardingSolver& solver, const AxisList& axes,
                     CostedPlan* plan) {
  constexpr int kRounds = 4;
  bool gained = true;
  for (int round = 0; round < kRounds && gained; ++round) {
    gained = false;
    for (size_t a = 0; a < axes.size(); ++a) {
      for (size_t b = a + 1; b < axes.size(); ++b) {
        ASYRA_ASSIGN_OR_RETURN(CostedPlan other,
                               solver.Solve(*plan, {axes[a], axes[b]}, axes));
        if (other.ns >= plan->ns) continue;
        *plan = std::move(other);
        // With two axes, this was the whole problem.
        gained = axes.size() > 2;
      }
    }
  }
  return absl::OkStatus();
}

// A requested axis is used wherever its role allows, at any cost.
absl::Status UseEveryAxis(const Program& program, const PlanOptions& options,
                          AxisRoles* roles, CostedPlan* plan,
                          PassContext& context) {
  if (UnusedAxes(program.mesh, *plan).empty()) return absl::OkStatus();
  CostedPlan without = *plan;
  for (bool asks = true; asks;) {
    asks = false;
    for (AxisId axis : UnusedAxes(program.mesh, *plan)) {
      asks |= roles->Insist(axis);
    }
    if (!asks) break;
    ASYRA_ASSIGN_OR_RETURN(*plan, SolveAxes(program, *roles, options));
  }
  ASYRA_RETURN_IF_ERROR(CheckEveryAxisIsUsed(program, *roles, *plan));
  RemarkCostOfUse(program, without, *plan, context);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CostedPlan> SolveAxes(const Program& program,
                                     const AxisRoles& roles,
                                     const PlanOptions& options,
                                     const Forms& fixed) {
  RedistributionCosts types(program.mesh, options.costs);
  ShardingSolver solver(program, roles, options, fixed, types);
  AxisList axes = SolveOrder(program.mesh), decided;
  CostedPlan plan = Unsharded(roles.labels());
  if (axes.empty()) return solver.Solve(plan, {}, {});
  for (AxisId axis : axes) {
    decided.push_back(axis);
    ASYRA_ASSIGN_OR_RETURN(plan, solver.Solve(plan, {axis}, decided));
  }
  ASYRA_RETURN_IF_ERROR(Improve(solver, axes, &plan));
  return plan;
}

absl::StatusOr<CostedPlan> SolveWithEveryAxis(const Program& program,
                                              const PlanOptions& options,
                                              AxisRoles* roles,
                                              PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(CostedPlan plan, SolveAxes(program, *roles, options));
  ASYRA_RETURN_IF_ERROR(UseEveryAxis(program, options, roles, &plan, context));
  return plan;
}

}  // namespace asyra
