#include "passes/ablation.h"

#include <algorithm>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "passes/bucket.h"
#include "passes/reorder.h"

namespace asyra {
namespace {

// Of the search for an order on the whole program.
constexpr int kMostSteps = 500;

absl::StatusOr<Program> Tiled(const Program& program,
                              const ScheduleOptions& options,
                              PassContext& context) {
  int most = options.tiles > 0 ? options.tiles : kMostTiles;
  int least = options.tiles > 0 ? options.tiles : 2;
  absl::Status status;
  for (const std::string& dim : TileDimsToTry(options)) {
    for (int tiles = most; tiles >= least; --tiles) {
      Program tiled = program;
      absl::Status one = RunPasses(
          tiled, fmt::format("tile{{tiles={}, dim=\"{}\"}}", tiles, dim),
          context, options.manager);
      if (one.ok()) return tiled;
      if (status.ok()) status = one;
    }
  }
  return status;
}

}  // namespace

absl::StatusOr<std::vector<AblationRow>> Ablation(
    const Program& program, const ScheduleOptions& options,
    PassContext& context) {
  if (context.costs == nullptr) return Invalid("needs prices: give --machine");
  std::vector<AblationRow> rows = {
      {"baseline", Simulate(program, *context.costs)}};
  ASYRA_ASSIGN_OR_RETURN(Program tiled, Tiled(program, options, context));
  rows.push_back({"+tile", Simulate(tiled, *context.costs)});
  ASYRA_RETURN_IF_ERROR(
      RunPasses(tiled, "start_collectives", context, options.manager));
  std::string scheduler =
      options.scheduler == "auto" ? "search" : options.scheduler;
  OrderSearchOptions search{.steps =
                                std::min(options.search_steps, kMostSteps)};
  for (bool bucket : {false, true}) {
    Program trial = tiled;
    if (bucket) {
      ASYRA_ASSIGN_OR_RETURN(BucketResult bucketed,
                             BucketTiles(tiled, *context.costs, {}));
      trial = std::move(bucketed.program);
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<int> order,
                           OrderBy(scheduler, trial, context.costs, search));
    ApplyOrder(trial, order);
    SimResult result = Simulate(trial, *context.costs);
    // As in a schedule, what is merged stays so where that pays in the order
    // that is found for it.
    if (bucket && rows.back().result.makespan_us < result.makespan_us) {
      result = rows.back().result;
    }
    rows.push_back(
        {bucket ? "+tile+reorder+bucket" : "+tile+reorder", std::move(result)});
  }
  return rows;
}

}  // namespace asyra
