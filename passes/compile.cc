// The whole way from a model to what the executor runs:
//
//   RaisePasses                        Raise, below
//   LowestCostOrder                    which devices each mesh axis connects
//   FactorSequence                     an axis of tokens as rows x heads
//   for each strategy:                 strategy_search.cc
//     ShardPasses                      with TrainPasses, for a training step
//     DecomposePasses, OverHostsPasses, WalkPasses where they are asked for, or
//     tried recompute                        as much as memory asks for
//     FusePasses
//     Schedule:                        search/schedule.cc
//       for each candidate             search/candidate_search.cc
//         tile, start_collectives      and other beginnings: PlanOf
//         decisions, merged tiles      search/decisions.h, bucket.h
//         the order of issue           schedule/order/order_search.h
//       StreamPasses                   on the best
//   LowerPasses                        joint updates, offsets of all values
//
// Each list of passes is in pipeline.cc. Programs of a later stage enter where
// that stage begins.
#include "passes/compile.h"

#include <algorithm>
#include <utility>

#include "ir/support/status.h"
#include "passes/search/capacity_error.h"
#include "passes/search/estimate_step.h"
#include "passes/search/factor_sequence.h"
#include "passes/search/mesh_order.h"
#include "passes/search/neighbours.h"
#include "passes/search/strategy_search.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/memory.h"

namespace asyra {
namespace {

// Too few bytes of a device for any program, and enough to take shares of.
constexpr int64_t kLittle = 1 << 10;
// Searches in less memory than the smallest schedule takes.
constexpr int kTightenings = 3;

// Shards, fuses and schedules, once for each collective strategy.
absl::Status Search(const CompileOptions& options, PassContext& context,
                    CompileResult* result) {
  Program& program = result->program;
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

// A separate search, with other options.
struct Attempt {
  PassContext context;
  CompileResult result;

  Attempt(const PassContext& from, const CompileResult& begin) : context(from) {
    result.program = begin.program;
    result.timings = begin.timings;
  }
  // Makes it the result.
  void Take(PassContext& to, CompileResult* taken) {
    result.costs = std::move(taken->costs);
    *taken = std::move(result);
    to = std::move(context);
  }
  int64_t BytesOf(const Program& program) const {
    return ReportMemory(program, Simulate(program, *context.costs),
                        context.costs->machine())
        .device_bytes;
  }
  int64_t bytes() const { return BytesOf(result.program); }
};

// `enough_bytes` as ScheduleOptions has them.
absl::StatusOr<Attempt> FindSmallest(CompileOptions options,
                                     const PassContext& context,
                                     const CompileResult& begin,
                                     int64_t enough_bytes) {
  options.schedule.smallest = true;
  options.schedule.enough_bytes = enough_bytes;
  options.schedule.capacity_bytes = kLittle;
  options.schedule.runners_up = 0;
  options.manager = {};
  Attempt smallest(context, begin);
  ASYRA_RETURN_IF_ERROR(Search(options, smallest.context, &smallest.result));
  // It was enough until LowerPasses.
  if (enough_bytes > 0 && smallest.bytes() > enough_bytes &&
      smallest.result.schedule->device_bytes <= enough_bytes) {
    return FindSmallest(options, context, begin, /*enough_bytes=*/0);
  }
  return smallest;
}

// Replaces it by what a search in less memory than it takes finds, as long as
// there is such a schedule and it takes more than is enough.
absl::Status Tighten(CompileOptions options, const PassContext& context,
                     const CompileResult& begin, int64_t enough_bytes,
                     Attempt* smallest) {
  options.schedule.runners_up = 0;
  options.schedule.search_steps =
      std::min(options.schedule.search_steps, kFirstRound);
  options.manager = {};
  for (int i = 0; i < kTightenings; ++i) {
    int64_t bytes = smallest->bytes();
    if (bytes <= enough_bytes) break;
    options.schedule.capacity_bytes = bytes - 1;
    Attempt found(context, begin);
    absl::Status searched = Search(options, found.context, &found.result);
    if (absl::IsResourceExhausted(searched)) break;
    ASYRA_RETURN_IF_ERROR(searched);
    if (found.bytes() >= bytes) break;
    *smallest = std::move(found);
  }
  return absl::OkStatus();
}

// Searches within a capacity that was asked for, three times at most if one
// fits:
//   any memory     what it finds is taken if it fits: a limit costs nothing
//                  where the fastest schedule meets it
//   least memory   what it finds says whether a schedule fits at all, so that
//                  the least that an error tells is enough
//   the capacity   the fastest that fits; where none is found, the smallest
absl::Status SearchWithin(const CompileOptions& options, PassContext& context,
                          CompileResult* result) {
  const int64_t capacity = *options.schedule.capacity_bytes;
  CompileOptions any = options;
  any.schedule.capacity_bytes = 0;
  Attempt fastest(context, *result);
  ASYRA_RETURN_IF_ERROR(Search(any, fastest.context, &fastest.result));
  if (fastest.bytes() <= capacity) {
    std::erase_if(fastest.result.schedule->runners_up,
                  [&](const RunnerUp& other) {
                    return fastest.BytesOf(other.program) > capacity;
                  });
    fastest.Take(context, result);
    return absl::OkStatus();
  }
  if (options.schedule.allow_misfit) return Search(options, context, result);
  ASYRA_ASSIGN_OR_RETURN(Attempt smallest,
                         FindSmallest(options, context, *result, capacity));
  ASYRA_RETURN_IF_ERROR(
      Tighten(options, context, *result, capacity, &smallest));
  int64_t needed = std::min(smallest.bytes(), fastest.bytes());
  if (needed > capacity) return NothingFits(capacity, needed);
  Attempt within(context, *result);
  absl::Status found = Search(options, within.context, &within.result);
  bool fits = found.ok() && within.bytes() <= capacity;
  if (!found.ok() && !absl::IsResourceExhausted(found)) return found;
  (fits ? within : smallest).Take(context, result);
  return absl::OkStatus();
}

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

// Runs the default pipeline from a raised model on.
absl::Status RunDefault(const CompileOptions& options, PassContext& context,
                        CompileResult* result) {
  Program& program = result->program;
  if (program.stage >= Stage::kScheduled) {
    result->partitioned = program;
    result->simulated = Simulate(program, *context.costs);
    return absl::OkStatus();
  }
  if (options.estimate) return EstimateStep(options, context, result);
  if (options.schedule.capacity_bytes.value_or(0) > 0) {
    return SearchWithin(options, context, result);
  }
  return Search(options, context, result);
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
  RaiseOptions raise = {.expert_capacity_percent = options.expert_capacity,
                        .dtype = options.dtype,
                        .pads_right = options.pads_right,
                        .documents = options.documents};
  if (options.train.has_value()) raise.trained = options.train->train;
  ASYRA_RETURN_IF_ERROR(RunPasses(raised.program, RaisePasses(raise), context,
                                  options.manager, &raised.timings));
  raised.remarks = std::move(context.remarks);
  const std::vector<Op>& ops = raised.program.ops;
  bool has_experts = std::any_of(ops.begin(), ops.end(), [](const Op& op) {
    return op.def->name == "moe_dispatch";
  });
  if (options.expert_capacity > 0 && !has_experts) {
    return Invalid("expert_capacity is {}, the model has no mixture of experts",
                   options.expert_capacity);
  }
  return raised;
}

namespace {

// Compiles for the machine alone.
absl::StatusOr<CompileResult> CompileAlone(const RaisedProgram& model,
                                           const Mesh& mesh,
                                           const Machine& machine,
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
      ASYRA_ASSIGN_OR_RETURN(
          result.program.mesh,
          FactorSequence(options, result.program, machine, context));
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

// Uses the schedule found for the neighbour if it is faster. Errors of the
// neighbour do not matter: there is a schedule.
void TryNeighbour(const RaisedProgram& model, const Mesh& mesh,
                  const CompileOptions& options, CompileResult* result) {
  CompileOptions other = options;
  other.manager = {};
  absl::StatusOr<CompileResult> found =
      CompileAlone(model, mesh, options.neighbour->machine, other);
  if (!found.ok()) return;
  AdoptFaster(options, *std::move(found), options.neighbour->name, result);
}

}  // namespace

absl::StatusOr<CompileResult> Compile(const RaisedProgram& model,
                                      const Mesh& mesh, const Machine& machine,
                                      const CompileOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(CompileResult result,
                         CompileAlone(model, mesh, machine, options));
  if (options.neighbour.has_value() && result.schedule.has_value()) {
    TryNeighbour(model, mesh, options, &result);
  }
  return result;
}

}  // namespace asyra
