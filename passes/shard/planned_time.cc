#include "passes/shard/planned_time.h"

#include <utility>

#include "ir/support/status.h"
#include "passes/pass.h"
#include "passes/shard/partition.h"
#include "passes/shard/pins.h"
#include "passes/shard/plan_sharding.h"

namespace asyra {

absl::StatusOr<Program> PlannedProgram(const Program& program,
                                       PlanOptions options,
                                       std::string_view pins,
                                       const CostModel& costs) {
  ASYRA_ASSIGN_OR_RETURN(options.pins, ReadPins(pins, program));
  PassContext context;  // its remarks come when the plan is made
  context.costs = &costs;
  ASYRA_ASSIGN_OR_RETURN(ShardingPlan plan,
                         PlanSharding(program, options, context));
  return Partition(program, plan, options.costs);
}

double SerialUs(const Program& local, const CostModel& costs) {
  double us = 0;
  for (const OpCost& cost : EstimateCosts(local, costs)) us += cost.time_us;
  return us;
}

absl::StatusOr<double> PlannedUs(const Program& program,
                                 const PlanOptions& options,
                                 std::string_view pins,
                                 const CostModel& costs) {
  ASYRA_ASSIGN_OR_RETURN(Program local,
                         PlannedProgram(program, options, pins, costs));
  return SerialUs(local, costs);
}

}  // namespace asyra
