#include "passes/search/ablation.h"

#include <algorithm>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "passes/schedule/order/reorder.h"
#include "passes/schedule/tile/bucket.h"
#include "simulator/replay/memory.h"

namespace asyra {
namespace {

// Steps of the search for an order on the whole program.
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
          tiled, {MakePass("tile", {{"tiles", int64_t{tiles}}, {"dim", dim}})},
          context, options.manager);
      if (one.ok()) return tiled;
      if (status.ok()) status = one;
    }
  }
  return status;
}

AblationRow RowOf(const std::string& name, const Program& program,
                  const PassContext& context) {
  AblationRow row{name, Simulate(program, *context.costs)};
  row.device_bytes =
      ReportMemory(program, row.result, context.costs->machine()).device_bytes;
  return row;
}

}  // namespace

absl::StatusOr<std::vector<AblationRow>> Ablation(
    const Program& program, const ScheduleOptions& options,
    PassContext& context) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  std::vector<AblationRow> rows = {RowOf("baseline", program, context)};
  ASYRA_ASSIGN_OR_RETURN(Program tiled, Tiled(program, options, context));
  rows.push_back(RowOf("+tile", tiled, context));
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
    AblationRow row = RowOf("+tile+reorder", trial, context);
    // Keeps merges, as a schedule does, if they pay in the order that is found
    // for them.
    if (bucket) {
      bool pays = row.result.makespan_us <= rows.back().result.makespan_us;
      if (!pays) row = rows.back();
      row.name = "+tile+reorder+bucket";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace asyra
