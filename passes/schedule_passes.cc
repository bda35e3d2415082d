#include "ir/support/status.h"
#include "passes/analysis/int_option.h"
#include "passes/fuse/fuse_updates.h"
#include "passes/pass_records.h"
#include "passes/schedule/memory/plan_memory.h"
#include "passes/schedule/order/hold_collectives.h"
#include "passes/schedule/order/reorder.h"
#include "passes/schedule/order/separate_phases.h"
#include "passes/schedule/order/start_collectives.h"
#include "passes/schedule/tile/bucket.h"
#include "passes/schedule/tile/merge_groups.h"
#include "passes/schedule/tile/tile.h"
#include "passes/schedule/transport/assign_streams.h"
#include "passes/schedule/transport/form_overlaps.h"
#include "passes/schedule/transport/fuse_reductions.h"
#include "passes/schedule/transport/sm_margin.h"
#include "passes/schedule/transport/stream_layout.h"
#include "passes/schedule/transport/use_copy_engines.h"
#include "passes/search/decisions.h"
#include "passes/search/schedule.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

absl::StatusOr<bool> SchedulePass(Program& program, const PassOptions& options,
                                  PassContext& context) {
  ScheduleOptions schedule;
  ASYRA_ASSIGN_OR_RETURN(schedule.tiles, IntOption(options, "tiles"));
  schedule.tile_dim = options.Get<std::string>("tile_dim");
  schedule.scheduler = options.Get<std::string>("scheduler");
  schedule.bucket = options.Bool("bucket");
  schedule.join = options.Bool("join");
  ASYRA_ASSIGN_OR_RETURN(schedule.search_steps, IntOption(options, "steps"));
  double gib = options.Float("memory_gib");
  if (!(gib < 0)) {
    ASYRA_RETURN_IF_ERROR(Annotate(CheckGib(gib), "memory_gib"));
    schedule.capacity_bytes = GibBytes(gib);
  }
  auto named = [&](std::string_view option) {
    return DecisionsNamed(options.Get<std::string>(option));
  };
  ASYRA_ASSIGN_OR_RETURN(schedule.closed, named("closed"));
  ASYRA_ASSIGN_OR_RETURN(schedule.opened, named("opened"));
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> taken, named("taken"));
  for (const std::string& pass : taken) {
    schedule.taken.push_back(MakePass(pass));
  }
  ASYRA_ASSIGN_OR_RETURN(ScheduleResult found,
                         Schedule(program, schedule, context));
  program = std::move(found.program);
  return true;
}

constexpr int64_t kDefaultTiles = 2;

AttrDef MemoryOption() {
  return {"memory_gib", AttrKind::kFloat,
          "memory of a device that the step may use; 0: no limit; below 0: the "
          "machine's memory",
          -1.0};
}

absl::StatusOr<bool> FuseUpdatesPass(Program& program, const PassOptions&,
                                     PassContext& context) {
  int fused = FuseUpdates(&program, context.costs);
  if (fused > 0) context.Remark("fuse_updates: {} updates joined", fused);
  return fused > 0;
}

}  // namespace

std::vector<PassRecord> SchedulePasses() {
  return {
      {.name = "tile",
       .summary = "cuts the program into lanes of tiles",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"tiles", AttrKind::kInt, "how many", kDefaultTiles},
                   {"dim", AttrKind::kString,
                    "batch, sequence, auto, or a dimension of the data inputs",
                    std::string("batch")}},
       .fn = Tile},
      {.name = "start_collectives",
       .summary = "makes collectives asynchronous and gives ops their streams",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kScheduled,
       .options = {{"early", AttrKind::kBool,
                    "as soon as the operand is ready; false: where they are",
                    true}},
       .fn = StartCollectives},
      {.name = "hold_collectives",
       .summary = "collectives of parameters, and others that take memory, "
                  "start when the step comes near to what reads them",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .options = {{"layers", AttrKind::kFloat,
                    "how long before, as a number of layers", 2.0}},
       .fn = HoldCollectivesPass},
      {.name = "separate_phases",
       .summary = "backward of a training step begins when forward has ended, "
                  "in all lanes",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .fn = SeparatePhasesPass},
      {.name = "reorder",
       .summary = "interleaves the lanes: one computes while another waits",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .options = {{"scheduler", AttrKind::kString,
                    "search, segrr, round_robin or serial",
                    std::string("segrr")},
                   {"steps", AttrKind::kInt, "orders that search simulates",
                    int64_t{OrderSearchOptions().steps}}},
       .fn = Reorder},
      {.name = "bucket",
       .summary = "merges tiles and joins small collectives where the "
                  "simulated step becomes shorter",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .options = {{"memory_gib", AttrKind::kFloat,
                    "memory of a device that the step may use; 0: no limit",
                    0.0},
                   {"steps", AttrKind::kInt,
                    "orders that are simulated for each set",
                    int64_t{BucketOptions().steps}},
                   {"join", AttrKind::kBool,
                    "whether small collectives may be joined", true}},
       .fn = Bucket},
      {.name = "merge_groups",
       .summary = "merges tiles and joins collectives that bucket has chosen",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .options = {{"names", AttrKind::kString,
                    "of runs of ops or of collectives, separated by \"; \"",
                    std::string()}},
       .fn = MergeGroups},
      {.name = "lay_out_streams",
       .summary = "serialises collectives over the same links; moves ops to a "
                  "second compute stream",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .options = {{"serialise", AttrKind::kBool,
                    "collectives over the same links are on one stream", false},
                   {"second", AttrKind::kString,
                    "what runs on a second compute stream: none, no_matmuls, "
                    "chains of ops without a matmul, or short, of ops that "
                    "take less than half of the longest",
                    std::string("none")}},
       .fn = LayOutStreamsPass},
      {.name = "form_overlaps",
       .summary = "a collective and the computation before or behind it as one "
                  "op, whose pieces hide each other, where that gains",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .options = {{"gathers", AttrKind::kBool, "before what reads them", true},
                   {"reductions", AttrKind::kBool,
                    "and exchanges, behind what they move", true},
                   {"always", AttrKind::kBool, "also where it gains nothing",
                    false},
                   {"measured", AttrKind::kBool,
                    "only where it gains by pieces that were measured", false},
                   {"joined", AttrKind::kBool,
                    "only reductions, several together", false},
                   {"plan", AttrKind::kString,
                    "a file with the text of a chunk plan, for all sites that "
                    "it fits, and no others",
                    std::string()},
                   {"site", AttrKind::kString,
                    "a result of the one site that takes the plan",
                    std::string()}},
       .fn = FormOverlapsPass},
      {.name = "split_overlaps",
       .summary = "the ops and collectives of overlaps, one after the other",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .fn = SplitOverlapsPass},
      {.name = "fuse_reductions",
       .summary = "a reduction over devices, the rows computed from it, and "
                  "gathers of them as one kernel, where that gains",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .options = {{"gathers", AttrKind::kBool, "gathers too", true},
                   {"always", AttrKind::kBool, "also where it gains nothing",
                    false}},
       .fn = FuseReductionsPass},
      {.name = "use_copy_engines",
       .summary =
           "copy engines for collectives that take hardly longer on them",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .fn = UseCopyEnginesPass},
      {.name = "leave_sm_margin",
       .summary = "matmuls leave SMs to collectives, where GEMMs are "
                  "persistent",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .options = {{"sms", AttrKind::kInt, "how many", int64_t{8}}},
       .fn = LeaveSmMarginPass},
      {.name = "trim_sm_margin",
       .summary =
           "removes the margin from matmuls that no collective can run beside",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .fn = TrimSmMarginPass},
      {.name = "assign_streams",
       .summary = "second compute stream; CTAs or copy engines of collectives",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .options = {{"second", AttrKind::kBool,
                    "whether ops may go to a second compute stream", true},
                   {"ctas", AttrKind::kBool,
                    "whether collectives may get other numbers of CTAs than "
                    "the library's, or copy engines that use_copy_engines did "
                    "not give them",
                    true}},
       .fn = AssignStreams},
      {.name = "schedule",
       .summary = "searches the fastest schedule that tile to assign_streams "
                  "can make, within the memory of a device",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kScheduled,
       .options =
           {{"tiles", AttrKind::kInt, "number of tiles; 0: the fastest",
             int64_t{0}},
            {"tile_dim", AttrKind::kString,
             "what tiles cut: batch, sequence, or auto", std::string("auto")},
            {"scheduler", AttrKind::kString,
             "order of issue: auto searches, or one of reorder's",
             std::string("auto")},
            {"bucket", AttrKind::kBool, "whether tiles may be merged", true},
            {"join", AttrKind::kBool, "whether small collectives may be joined",
             true},
            {"steps", AttrKind::kInt, "orders that are simulated",
             int64_t{kSearchSteps}},
            {"taken", AttrKind::kString,
             "passes of decisions that every candidate begins with, "
             "separated by \"; \"",
             std::string()},
            {"closed", AttrKind::kString,
             "those that are not tried, in the same form", std::string()},
            {"opened", AttrKind::kString,
             "those tried on request alone that are", std::string()},
            MemoryOption()},
       .fn = SchedulePass},
      {.name = "fuse_updates",
       .summary = "joins updates of parameters that wait for one norm into one "
                  "kernel",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .fn = FuseUpdatesPass},
      {.name = "plan_memory",
       .summary = "gives every value an offset in one arena",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kAllocated,
       .options = {MemoryOption()},
       .fn = PlanMemoryPass},
  };
}

}  // namespace asyra
