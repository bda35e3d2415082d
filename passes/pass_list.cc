#include "passes/pass_list.h"

#include <algorithm>

#include "ir/support/status.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/fusion_clusters.h"
#include "passes/raise/canonicalize.h"
#include "passes/raise/raise_activation.h"
#include "passes/raise/raise_attention.h"
#include "passes/raise/raise_moe.h"
#include "passes/raise/raise_norm.h"
#include "passes/raise/raise_rotary.h"
#include "passes/raise/split_projections.h"
#include "passes/rewrite/set_dtype.h"
#include "passes/schedule/assign_streams.h"
#include "passes/schedule/bucket.h"
#include "passes/schedule/decisions.h"
#include "passes/schedule/form_overlaps.h"
#include "passes/schedule/hold_collectives.h"
#include "passes/schedule/merge_groups.h"
#include "passes/schedule/plan_memory.h"
#include "passes/schedule/recompute.h"
#include "passes/schedule/reorder.h"
#include "passes/schedule/schedule.h"
#include "passes/schedule/separate_phases.h"
#include "passes/schedule/sm_margin.h"
#include "passes/schedule/start_collectives.h"
#include "passes/schedule/stream_layout.h"
#include "passes/schedule/tile.h"
#include "passes/schedule/use_copy_engines.h"
#include "passes/shard/decompose_over_hosts.h"
#include "passes/shard/decompose_reduce_scatter.h"
#include "passes/shard/merge_expert_rows.h"
#include "passes/shard/pad_dims.h"
#include "passes/shard/partition.h"
#include "passes/shard/plan_options.h"
#include "passes/shard/plan_sharding.h"
#include "passes/shard/propagate_sharding.h"
#include "passes/shard/split_loss.h"
#include "passes/train/accumulate_gradients.h"
#include "passes/train/attach_loss.h"
#include "passes/train/attach_updates.h"
#include "passes/train/average_loss.h"
#include "passes/train/defer_reductions.h"
#include "passes/train/differentiate.h"
#include "passes/train/mark_params.h"
#include "simulator/library_memory.h"

namespace asyra {
namespace {

absl::StatusOr<bool> PadDimsPass(Program& program, const PassOptions& options,
                                 PassContext& context) {
  PadOptions pad_options;
  ASYRA_ASSIGN_OR_RETURN(pad_options.plan,
                         ReadPlanOptions(options, program, context));
  pad_options.pins = options.Get<std::string>("pins");
  pad_options.always = options.Bool("always");
  return PadDims(program, pad_options, context);
}

absl::StatusOr<bool> PlanShardingPass(Program& program,
                                      const PassOptions& options,
                                      PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(PlanOptions plan_options,
                         ReadPlanOptions(options, program, context));
  ASYRA_ASSIGN_OR_RETURN(plan_options.pins,
                         ReadPins(options.Get<std::string>("pins"), program));
  ASYRA_ASSIGN_OR_RETURN(plan_options.zero,
                         ReadZero(options.Get<std::string>("zero")));
  if (context.costs != nullptr) {
    plan_options.memory_bytes =
        CapacityBytes(options.Float("memory_gib"), context.costs->machine());
  }
  ASYRA_ASSIGN_OR_RETURN(ShardingPlan plan,
                         PlanSharding(program, plan_options, context));
  context.zero = plan.zero;
  context.plan = std::make_shared<const ShardingPlan>(std::move(plan));
  return true;
}

absl::StatusOr<bool> PropagateShardingPass(Program& program,
                                           const PassOptions& options,
                                           PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(Pins seeds,
                         ReadPins(options.Get<std::string>("seeds"), program));
  ASYRA_ASSIGN_OR_RETURN(Propagation propagation,
                         PropagateSharding(program, seeds));
  constexpr size_t kShown = 10;
  size_t count = propagation.conflicts.size();
  for (size_t i = 0; i < std::min(count, kShown); ++i) {
    context.Remark("conflict in {}", propagation.conflicts[i].text);
  }
  if (count > kShown) context.Remark("and {} conflicts more", count - kShown);
  context.plan =
      std::make_shared<const ShardingPlan>(std::move(propagation.plan));
  return true;
}

absl::StatusOr<bool> PartitionPass(Program& program, const PassOptions&,
                                   PassContext& context) {
  if (context.plan == nullptr) {
    return Invalid(
        "there is no plan: run plan_sharding or propagate_sharding right "
        "before");
  }
  PlanCosts costs;
  costs.model = context.costs;
  ASYRA_ASSIGN_OR_RETURN(program, Partition(program, *context.plan, costs));
  context.plan = nullptr;
  return true;
}

absl::StatusOr<bool> SchedulePass(Program& program, const PassOptions& options,
                                  PassContext& context) {
  ScheduleOptions schedule;
  schedule.tiles = static_cast<int>(options.Int("tiles"));
  schedule.tile_dim = options.Get<std::string>("tile_dim");
  schedule.scheduler = options.Get<std::string>("scheduler");
  schedule.bucket = options.Bool("bucket");
  schedule.join = options.Bool("join");
  schedule.search_steps = static_cast<int>(options.Int("steps"));
  if (options.Float("memory_gib") >= 0) {
    schedule.capacity_bytes = GibBytes(options.Float("memory_gib"));
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

const std::vector<PassRecord>& Records() {
  static const auto* records = new std::vector<PassRecord>{
      {.name = "canonicalize",
       .summary =
           "canonical form: constants folded, views merged and cancelled",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = Canonicalize},
      {.name = "raise_norm",
       .summary = "rms_norm and layer_norm from their formulas",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = RaiseNorm},
      {.name = "raise_activation",
       .summary = "gelu, silu and gated activations from their formulas",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = RaiseActivation},
      {.name = "raise_moe",
       .summary = "mixtures of experts from gathered weights",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"capacity_percent", AttrKind::kInt,
                    "slots of an expert in percent of an even share; 0: one "
                    "for every choice",
                    int64_t{0}}},
       .fn = RaiseMoe},
      {.name = "raise_rotary",
       .summary = "rotary position embedding from rotated halves",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = RaiseRotary},
      {.name = "split_projections",
       .summary = "splits a fused matmul into one for each part that is read",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = SplitProjections},
      {.name = "raise_attention",
       .summary = "attention from softmax, its masks as attributes",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = RaiseAttention},
      {.name = "set_dtype",
       .summary = "computes in another float type",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"dtype", AttrKind::kString, "f64, f32, bf16 or f16",
                    std::nullopt}},
       .fn = SetDType},
      {.name = "merge_expert_rows",
       .summary = "sends the tokens of all batches to their experts at once",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = MergeExpertRows},
      {.name = "pad_dims",
       .summary = "pads weights that the mesh does not divide where that pays",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = PlanOptionDefs(
           {{"always", AttrKind::kBool, "even where it costs more", false}}),
       .fn = PadDimsPass},
      {.name = "attach_loss",
       .summary = "makes the outputs the loss of a training step and how many "
                  "terms it has",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"output", AttrKind::kString,
                    "which is the loss or the logits; empty: the only one",
                    std::string()},
                   {"next_token", AttrKind::kBool,
                    "each token is the label of the one before, instead of an "
                    "input of labels",
                    false}},
       .fn = AttachLoss},
      {.name = "split_loss",
       .summary = "cross entropy that reads logits once, in parts of a "
                  "vocabulary that a model axis shards, so that none are "
                  "gathered",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = SplitLoss},
      {.name = "mark_params",
       .summary = "makes the weights that are trained params",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"freeze", AttrKind::kString,
                    "a regular expression: weights of these names stay",
                    std::string()}},
       .fn = MarkParams},
      {.name = "differentiate",
       .summary = "adds the gradient of the loss by each parameter",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = Differentiate},
      {.name = "accumulate_gradients",
       .summary = "adds loss and gradients to those of the batches before",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"last", AttrKind::kBool,
                    "of the last batch, whose updates read the sums", false}},
       .fn = AccumulateGradients},
      {.name = "average_loss",
       .summary = "makes the outputs the mean loss and how many terms it has",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = AverageLoss},
      {.name = "attach_updates",
       .summary = "adds the optimizer: parameters change by their gradients",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"optimizer", AttrKind::kString, "adamw or sgd",
                    std::string("adamw")},
                   {"beta1", AttrKind::kFloat, "of adamw's mean", 0.9},
                   {"beta2", AttrKind::kFloat, "of adamw's mean square", 0.95},
                   {"eps", AttrKind::kFloat, "of adamw", 1e-8},
                   {"momentum", AttrKind::kFloat, "of sgd", 0.0},
                   {"decay", AttrKind::kFloat, "weight decay", 0.1},
                   {"decay_of", AttrKind::kString,
                    "what decays: matrices, or a regular expression of names",
                    std::string("matrices")},
                   {"clip", AttrKind::kFloat,
                    "the largest norm of all gradients together; 0: any", 1.0}},
       .fn = AttachUpdates},
      {.name = "plan_sharding",
       .summary = "chooses how each op is sharded over the mesh, by cost",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = PlanOptionDefs(
           {{"zero", AttrKind::kString,
             "of a training step, what axes of tokens cut: 0 nothing, 1 "
             "states, 2 gradients too, 3 parameters too, or auto",
             std::string("auto")},
            {"memory_gib", AttrKind::kFloat,
             "memory of a device, for zero auto; 0: no limit; below 0: the "
             "machine's memory",
             -1.0}}),
       .fn = PlanShardingPass},
      {.name = "propagate_sharding",
       .summary = "instead of plan_sharding: propagates given shardings",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"seeds", AttrKind::kString,
                    "values fixed by name, as pins of plan_sharding",
                    std::string()}},
       .fn = PropagateShardingPass},
      {.name = "partition",
       .summary = "makes the program each device runs, collectives explicit",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kLocal,
       .fn = PartitionPass},
      {.name = "defer_reductions",
       .summary =
           "sums gradients over batches before devices, so that only the "
           "last batch exchanges them",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .fn = DeferReductions},
      {.name = "decompose_reduce_scatter",
       .summary =
           "splits each reduce_scatter into an all_to_all and a reduction",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"copyable", AttrKind::kBool,
                    "only where copy engines can carry the all_to_all", false}},
       .fn = DecomposeReduceScatter},
      {.name = "decompose_over_hosts",
       .summary = "makes collectives over hosts collectives inside each and "
                  "across them",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"host", AttrKind::kInt,
                    "devices of a host; 0: as the machine has", int64_t{0}},
                   {"always", AttrKind::kBool,
                    "also where half of their time is latency", false}},
       .fn = DecomposeOverHosts},
      {.name = "recompute",
       .summary = "computes values of forward again in backward, which are "
                  "then not kept",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"values", AttrKind::kString,
                    "their names, * for a number, separated by \"; \", or all",
                    std::nullopt}},
       .fn = Recompute},
      {.name = "fuse",
       .summary = "joins elementwise ops, and row reductions or a matmul with "
                  "them, into one kernel",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options =
           {{"max_ops", AttrKind::kInt, "most ops of one fusion",
             int64_t{ClusterOptions().most_ops}},
            {"measured_only", AttrKind::kBool,
             "only where the cost of the fusion was measured", false},
            {"epilogues", AttrKind::kString,
             "matmuls with bias, residual and activation: measured, where a "
             "measurement shows a gain; estimated, also by formulas; none",
             std::string("measured")}},
       .fn = Fuse},
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
                    false}},
       .fn = FormOverlapsPass},
      {.name = "split_overlaps",
       .summary = "the ops and collectives of overlaps, one after the other",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kScheduled,
       .fn = SplitOverlapsPass},
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
      {.name = "plan_memory",
       .summary = "gives every value an offset in one arena",
       .from_stage = Stage::kScheduled,
       .to_stage = Stage::kAllocated,
       .options = {MemoryOption()},
       .fn = PlanMemoryPass},
  };
  return *records;
}

}  // namespace

absl::Span<const PassRecord> AllPasses() { return Records(); }

const PassRecord* FindPass(std::string_view name) {
  for (const PassRecord& pass : Records()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

}  // namespace asyra
