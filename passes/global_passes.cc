#include <algorithm>

#include "ir/support/status.h"
#include "passes/pass_records.h"
#include "passes/raise/blind_rows.h"
#include "passes/raise/canonicalize.h"
#include "passes/raise/mask_documents.h"
#include "passes/raise/masks_as_lengths.h"
#include "passes/raise/raise_activation.h"
#include "passes/raise/raise_attention.h"
#include "passes/raise/raise_moe.h"
#include "passes/raise/raise_norm.h"
#include "passes/raise/raise_rotary.h"
#include "passes/raise/split_projections.h"
#include "passes/rewrite/set_dtype.h"
#include "passes/shard/merge_expert_rows.h"
#include "passes/shard/pad_dims.h"
#include "passes/shard/partition.h"
#include "passes/shard/plan_options.h"
#include "passes/shard/plan_sharding.h"
#include "passes/shard/propagate_sharding.h"
#include "passes/shard/split_loss.h"
#include "passes/shard/stripe_sequence.h"
#include "passes/train/accumulate_gradients.h"
#include "passes/train/attach_loss.h"
#include "passes/train/attach_updates.h"
#include "passes/train/average_loss.h"
#include "passes/train/balance_experts.h"
#include "passes/train/differentiate.h"
#include "passes/train/mark_params.h"
#include "passes/train/parameters.h"
#include "passes/train/tie_weights.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

absl::StatusOr<bool> TieWeightsPass(Program& program,
                                    const PassOptions& options,
                                    PassContext& context) {
  TieChoice choice = {.tie = options.Get<std::string>("tie"),
                      .untie = options.Get<std::string>("untie")};
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<std::string> lines,
      TieWeights(program, FindParameters(program).parameters, choice));
  for (const std::string& line : lines) context.Remark("{}", line);
  return !lines.empty();
}

absl::StatusOr<bool> PadDimsPass(Program& program, const PassOptions& options,
                                 PassContext& context) {
  PadOptions pad_options;
  ASYRA_ASSIGN_OR_RETURN(pad_options.plan,
                         ReadPlanOptions(options, program, context));
  pad_options.pins = options.Get<std::string>("pins");
  pad_options.always = options.Bool("always");
  pad_options.trained = options.Bool("trained");
  pad_options.sizes = options.Get<std::string>("sizes");
  return PadDims(program, pad_options, context);
}

absl::StatusOr<bool> StripePass(Program& program, const PassOptions& options,
                                PassContext& context) {
  StripeOptions stripes;
  ASYRA_ASSIGN_OR_RETURN(stripes.plan,
                         ReadPlanOptions(options, program, context));
  stripes.pins = options.Get<std::string>("pins");
  ASYRA_ASSIGN_OR_RETURN(stripes.when,
                         ReadStripes(options.Get<std::string>("when")));
  return StripeSequencePass(program, stripes, context);
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
    ASYRA_ASSIGN_OR_RETURN(
        plan_options.memory_bytes,
        ReadCapacity(options.Float("memory_gib"), context.costs->machine()));
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

}  // namespace

std::vector<PassRecord> GlobalPasses() {
  return {
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
       .options = {{"trained", AttrKind::kString,
                    "a regular expression: tables of weights of these names "
                    "are computed in the step, not before it",
                    std::string()}},
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
      {.name = "masks_as_lengths",
       .summary = "padding masks of attention as lengths of rows that are "
                  "ones, then zeros, which each step checks",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"only_says", AttrKind::kBool,
                    "changes nothing, but says which masks could be lengths",
                    false}},
       .fn = MasksAsLengths},
      {.name = "mask_documents",
       .summary = "hides from each token the documents before its own, by an "
                  "input of where they begin",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"documents", AttrKind::kInt,
                    "about how many a row has, for what attention costs",
                    int64_t{1}}},
       .fn = MaskDocuments},
      {.name = "average_blind_rows",
       .summary = "rows of attention that see no key apart from the others",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .fn = AverageBlindRows},
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
      {.name = "tie_weights",
       .summary = "makes one weight of table and head that are stored twice",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"tie", AttrKind::kString,
                    "a regular expression: weights of these names and of "
                    "equal data are one",
                    std::string()},
                   {"untie", AttrKind::kString,
                    "a regular expression: weights of these names stay apart "
                    "from others of equal data",
                    std::string()}},
       .fn = TieWeightsPass},
      {.name = "pad_dims",
       .summary = "pads weights that the mesh does not divide where that pays",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = PlanOptionDefs(
           {{"always", AttrKind::kBool, "even where it costs more", false},
            {"trained", AttrKind::kBool,
             "only where no gradient reaches the padding", false},
            {"sizes", AttrKind::kString,
             "SIZE=PADDED,...: what is padded, or none, instead of what pays",
             std::string()}}),
       .fn = PadDimsPass},
      {.name = "stripe_sequence",
       .summary = "gives each device an early and a late part of the tokens, "
                  "so that all see equally many keys, where that pays",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options =
           PlanOptionDefs({{"when", AttrKind::kString, "auto, never or always",
                            std::string("auto")}}),
       .fn = StripePass},
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
                    false},
                   {"batch", AttrKind::kString,
                    "of a step that has several: the last, or one before; "
                    "empty: the only one",
                    std::string()}},
       .fn = AttachLoss},
      {.name = "balance_experts",
       .summary = "adds terms to the loss that keep mixtures of experts "
                  "balanced",
       .from_stage = Stage::kGlobal,
       .to_stage = Stage::kGlobal,
       .options = {{"balance", AttrKind::kFloat,
                    "weight of the product of choices and probabilities; 0: "
                    "none",
                    0.0},
                   {"z", AttrKind::kFloat,
                    "weight of the squared log sums of router logits; 0: none",
                    0.0}},
       .fn = BalanceExperts},
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
                    std::string()},
                   {"train", AttrKind::kString,
                    "a regular expression: weights of these names are "
                    "trained, though they look like constants",
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
  };
}

}  // namespace asyra
