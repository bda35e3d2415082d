// The whole way from a model to what the executor runs:
//
//   RaisePasses                        Raise, below
//   LowestCostOrder                    which devices each mesh axis connects
//   for each strategy:                 strategy_search.cc
//     ShardPasses                      with TrainPasses, for a training step
//     DecomposePasses, OverHostsPasses where they are asked for, or tried
//     recompute                        as much as memory asks for
//     FusePasses
//     Schedule:                        schedule/schedule.cc
//       for each candidate             schedule/candidate_search.cc
//         tile, start_collectives      and other beginnings: PlanOf
//         decisions, merged tiles      schedule/decisions.h, bucket.h
//         the order of issue           schedule/order_search.h
//       StreamPasses                   on the best
//   LowerPasses                        joint updates, offsets of all values
//
// Each list of passes is in pipeline.cc. Programs of a later stage enter where
// that stage begins.
#include "passes/compile.h"

#include <utility>

#include "ir/support/status.h"
#include "passes/mesh_order.h"
#include "passes/strategy_search.h"
#include "simulator/library_memory.h"

namespace asyra {
namespace {

absl::Status RunGiven(const CompileOptions& options, PassContext& context,
                      CompileResult* result) {
  ASYRA_RETURN_IF_ERROR(RunPasses(result->program, options.passes, context,
                                  options.manager, &result->timings));
  if (result->program.stage >= Stage::kLocal) {
    result->partitioned = result->program;
    result->simulated = Simulate(result->program, *context.costs);
  }
  return absl::OkStatus();
}

// From a raised model on.
absl::Status RunDefault(const CompileOptions& options, PassContext& context,
                        CompileResult* result) {
  Program& program = result->program;
  if (program.stage >= Stage::kScheduled) {
    result->partitioned = program;
    result->simulated = Simulate(program, *context.costs);
    return absl::OkStatus();
  }
  // Shard, fuse, schedule: once for each collective strategy.
  StrategySearch search(options, context, result);
  ASYRA_RETURN_IF_ERROR(search.Run());
  Pipeline lower =
      LowerPasses(CapacityGib(options.schedule.capacity_bytes), options.fuse);
  ASYRA_RETURN_IF_ERROR(
      RunPasses(program, lower, context, options.manager, &result->timings));
  for (RunnerUp& other : result->schedule->runners_up) {
    ASYRA_RETURN_IF_ERROR(RunPasses(other.program, lower, context,
                                    options.manager, &result->timings));
  }
  result->simulated = Simulate(program, *context.costs);
  result->schedule->optimized = *result->simulated;
  result->noise = SearchNoise(result->schedule->round_us);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RaisedProgram> Raise(Program model,
                                    const CompileOptions& options,
                                    const DimNames& dim_names,
                                    const OpSources& op_sources) {
  RaisedProgram raised{.program = std::move(model),
                       .dim_names = dim_names,
                       .op_sources = op_sources};
  if (raised.program.stage != Stage::kGlobal || !options.passes.empty()) {
    return raised;
  }
  PassContext context;
  context.dim_names = dim_names;
  ASYRA_RETURN_IF_ERROR(RunPasses(
      raised.program, RaisePasses(options.expert_capacity, options.dtype),
      context, options.manager, &raised.timings));
  raised.remarks = std::move(context.remarks);
  return raised;
}

absl::StatusOr<CompileResult> Compile(const RaisedProgram& model,
                                      const Mesh& mesh, const Machine& machine,
                                      const CompileOptions& options) {
  if (options.schedule.capacity_bytes.value_or(0) < 0) {
    return Invalid("capacity_bytes is {}; 0 means no limit",
                   *options.schedule.capacity_bytes);
  }
  PassContext context;
  context.remarks = model.remarks;
  context.progress = options.progress;
  context.tally = std::make_shared<SearchTally>();
  context.dim_names = model.dim_names;
  context.op_sources = model.op_sources;
  CompileResult result;
  result.program = model.program;
  result.timings = model.timings;
  if (model.program.stage == Stage::kGlobal) {
    result.program.mesh = mesh;
    if (options.order_axes && options.passes.empty()) {
      ASYRA_ASSIGN_OR_RETURN(
          result.program.mesh,
          LowestCostOrder(options, result.program, machine, context));
    }
  } else if (mesh.num_axes() > 0) {
    return Invalid("the program is partitioned already, over {}",
                   ToString(model.program.mesh));
  }
  ASYRA_RETURN_IF_ERROR(CheckFits(result.program.mesh, machine));
  result.costs =
      std::make_unique<CostModel>(machine, result.program.mesh, options.costs);
  context.costs = result.costs.get();
  ASYRA_RETURN_IF_ERROR(options.passes.empty()
                            ? RunDefault(options, context, &result)
                            : RunGiven(options, context, &result));
  if (context.own_costs != nullptr) {
    result.costs = std::make_unique<CostModel>(*context.own_costs);
  }
  result.remarks = std::move(context.remarks);
  return result;
}

}  // namespace asyra
