#include "passes/plan_sharding.h"

#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/axis_roles.h"
#include "passes/axis_solver.h"
#include "passes/dim_labels.h"
#include "simulator/cost_model.h"

namespace asyra {
namespace {

// Model axes first: what they divide decides what is left for data axes.
std::vector<AxisId> SolveOrder(const Mesh& mesh) {
  std::vector<AxisId> order;
  for (bool model : {true, false}) {
    for (int a = mesh.num_axes(); a-- > 0;) {
      AxisRole role = RoleOf(mesh.name(static_cast<AxisId>(a)));
      if ((role == AxisRole::kModel) == model) {
        order.push_back(static_cast<AxisId>(a));
      }
    }
  }
  return order;
}

}  // namespace

PlanPrices::Link PlanPrices::Over(const AxisList& axes) const {
  Link slowest;
  bool first = true;
  for (AxisId axis : axes) {
    Link link = static_cast<size_t>(axis) < links.size() ? links[axis] : Link();
    if (first || link.bytes_per_us < slowest.bytes_per_us) slowest = link;
    first = false;
  }
  return slowest;
}

PlanPrices PricesFrom(const CostModel* costs) {
  PlanPrices prices;
  if (costs == nullptr) return prices;
  const Gpu& gpu = costs->machine().gpu;
  auto matrix = gpu.matrix_tflops.find("bf16");
  if (matrix != gpu.matrix_tflops.end()) {
    prices.flops_per_us = matrix->second.achievable * 1e6;
  }
  prices.memory_bytes_per_us = gpu.hbm_gbps.achievable * 1e3;
  prices.kernel_us = gpu.kernel_us;
  // A line through a small and a large all_gather.
  constexpr double kSmall = 1 << 16, kLarge = 1 << 26;
  for (int a = 0; a < costs->mesh().num_axes(); ++a) {
    AxisList axis = {static_cast<AxisId>(a)};
    double n = static_cast<double>(costs->mesh().size(axis));
    double small =
        costs->CollectiveUs(CollectiveKind::kAllGather, kSmall, axis);
    double large =
        costs->CollectiveUs(CollectiveKind::kAllGather, kLarge, axis);
    PlanPrices::Link link;
    if (n > 1 && large > small) {
      link.latency_us = small;
      link.bytes_per_us = (kLarge - kSmall) * (n - 1) / n / (large - small);
    }
    prices.links.push_back(link);
  }
  return prices;
}

absl::StatusOr<ShardingPlan> PlanSharding(const Program& program,
                                          const PlanOptions& options,
                                          PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(DimLabels labels, DimLabels::Of(program));
  ShardingPlan plan;
  for (const AxisRule& rule : labels.rules) {
    plan.ops.push_back({FactorAxes(rule.factors.size()),
                        std::vector<AxisList>(rule.operands.size())});
  }
  for (const Input& input : program.inputs) {
    plan.inputs.push_back(program.type(input.value));
  }
  for (AxisId axis : SolveOrder(program.mesh)) {
    const std::string& name = program.mesh.name(axis);
    int64_t size = program.mesh.size(axis);
    if (size == 1) continue;
    AxisSolver solver(program, labels, axis, options, plan);
    ASYRA_ASSIGN_OR_RETURN(AxisSolver::Solution solution, solver.Solve());
    if (!solution.used) {
      return Invalid(
          "axis {} of size {} shards nothing: no dimension it may "
          "shard has a size that {} divides{}",
          name, size, size,
          solution.undivided.empty()
              ? ""
              : "; the first op it should divide is " +
                    ToString(program, program.ops[solution.undivided[0]]));
    }
    for (int op : solution.undivided) {
      context.Remark("axis {} of size {} does not divide {}", name, size,
                     ToString(program, program.ops[op]));
    }
    solver.Apply(solution, &plan);
  }
  plan.pins = options.pins;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Type* pin = PinOf(plan.pins, program.inputs[i].value);
    if (pin != nullptr) plan.inputs[i] = *pin;  // with its order of axes
  }
  return plan;
}

}  // namespace asyra
