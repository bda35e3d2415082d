#include "passes/pipeline.h"

namespace asyra {
namespace {

// Returns whether the program adds gradients to those of other batches.
bool Accumulates(const TrainOptions& options) {
  return options.what == TrainOptions::What::kAccumulate ||
         (options.what == TrainOptions::What::kStep && options.accumulate > 1);
}

// attach_loss
std::string BatchOf(const TrainOptions& options) {
  if (!Accumulates(options)) return "";
  return options.what == TrainOptions::What::kStep ? "last" : "before";
}

bool StoresInHalves(const TrainOptions& options) {
  return options.halves && (options.what == TrainOptions::What::kStep ||
                            !options.in_halves.empty());
}

}  // namespace

// Each raise needs what the one before it has cleaned up: norms leave casts
// dead, activations become operands of rotary's multiplications, and attention
// absorbs transposes that rotary has moved to its layout. Projections are split
// when rotary no longer reads parts of heads.
Pipeline RaisePasses(const RaiseOptions& options) {
  const std::string& dtype = options.dtype;
  // Constants are computed in the wider of both types.
  bool is_wide = dtype == "f64" || dtype == "f32";
  Pipeline passes;
  if (is_wide) {
    passes.push_back(MakePass("set_dtype", {{"dtype", dtype}}));
  }
  for (PassRun pass : Pipeline{
           MakePass("canonicalize"),
           MakePass("raise_norm"),
           MakePass("raise_activation"),
           MakePass("raise_moe",
                    {{"capacity_percent", options.expert_capacity_percent}}),
           MakePass("raise_rotary", {{"trained", options.trained}}),
           MakePass("split_projections"),
           MakePass("raise_attention"),
           MakePass("canonicalize"),
       }) {
    passes.push_back(std::move(pass));
  }
  passes.push_back(
      MakePass("masks_as_lengths", {{"only_says", !options.pads_right}}));
  if (options.documents > 0) {
    passes.push_back(
        MakePass("mask_documents", {{"documents", options.documents}}));
  }
  passes.push_back(MakePass("average_blind_rows"));
  if (!dtype.empty() && !is_wide)
    passes.push_back(MakePass("set_dtype", {{"dtype", dtype}}));
  return passes;
}

Pipeline TrainPasses(const TrainOptions& options, const Pipeline& padding,
                     const Pipeline& stripes) {
  using What = TrainOptions::What;
  Pipeline passes = {MakePass(
      "tie_weights", {{"tie", options.tie}, {"untie", options.untie}})};
  passes.insert(passes.end(), padding.begin(), padding.end());
  if (options.what != What::kForward) {
    passes.push_back(
        MakePass("attach_loss", {{"output", options.output},
                                 {"next_token", options.next_token},
                                 {"batch", BatchOf(options)}}));
    bool balances = options.balance > 0 || options.router_z > 0;
    if (balances && options.what != What::kEvaluate) {
      passes.push_back(
          MakePass("balance_experts",
                   {{"balance", options.balance}, {"z", options.router_z}}));
    }
    passes.push_back(MakePass("split_loss"));
  }
  passes.push_back(MakePass(
      "mark_params", {{"freeze", options.freeze}, {"train", options.train}}));
  passes.insert(passes.end(), stripes.begin(), stripes.end());
  if (options.what == What::kEvaluate) {
    passes.push_back(MakePass("average_loss"));
  }
  if (options.what == What::kStep || options.what == What::kGradients ||
      options.what == What::kAccumulate) {
    passes.push_back(MakePass("differentiate"));
  }
  if (Accumulates(options)) {
    passes.push_back(MakePass("accumulate_gradients",
                              {{"last", options.what == What::kStep}}));
  }
  if (options.what == What::kStep) {
    passes.push_back(
        MakePass("attach_updates", {{"optimizer", options.optimizer},
                                    {"beta1", options.beta1},
                                    {"beta2", options.beta2},
                                    {"eps", options.eps},
                                    {"momentum", options.momentum},
                                    {"decay", options.decay},
                                    {"decay_of", options.decay_of},
                                    {"clip", options.clip}}));
  }
  passes.push_back(MakePass("canonicalize"));
  return passes;
}

Pipeline ChunkPasses(int64_t chunks) {
  return {MakePass("chunk_loss", {{"chunks", chunks}})};
}

// Rows of experts are merged as the mesh allows.
Pipeline ShardPasses(const ShardingOptions& options,
                     const std::optional<TrainOptions>& train) {
  if (options.propagate) {
    Pipeline passes;
    if (train.has_value()) passes = TrainPasses(*train);
    passes.push_back(MakePass("propagate_sharding", {{"seeds", options.pins}}));
    passes.push_back(MakePass("partition"));
    passes.push_back(MakePass("pack_expert_rows"));
    passes.push_back(MakePass("weigh_packed_rows"));
    return passes;
  }
  PassOptions plan = {{"pins", options.pins},
                      {"experts", options.experts},
                      {"tp_strategy", options.tp_strategy},
                      {"ep_strategy", options.ep_strategy}};
  PassOptions pad = plan;
  pad.Set("sizes", options.padding);
  pad.Set("trained", train.has_value());
  Pipeline passes = {MakePass("merge_expert_rows")};
  Pipeline padding = {MakePass("pad_dims", pad)};
  PassOptions stripe = plan;
  stripe.Set("when", options.stripes);
  Pipeline stripes = {MakePass("stripe_sequence", stripe)};
  Pipeline rest = padding;
  if (train.has_value()) {
    rest = TrainPasses(*train, padding, stripes);
  } else {
    rest.insert(rest.end(), stripes.begin(), stripes.end());
  }
  passes.insert(passes.end(), rest.begin(), rest.end());
  if (train.has_value()) {
    plan.Set("zero", train->zero);
    plan.Set("memory_gib", options.memory_gib);
  }
  passes.push_back(MakePass("plan_sharding", plan));
  passes.push_back(MakePass("partition"));
  if (train.has_value() && Accumulates(*train)) {
    passes.push_back(MakePass("defer_reductions", {{"sums", train->sums}}));
  }
  if (train.has_value()) passes.push_back(MakePass("exchange_rows"));
  passes.push_back(MakePass("pack_expert_rows"));
  passes.push_back(MakePass("weigh_packed_rows"));
  if (train.has_value() && train->what == TrainOptions::What::kStep) {
    passes.push_back(MakePass("join_squares"));
  }
  if (train.has_value() && StoresInHalves(*train)) {
    passes.push_back(
        MakePass("store_in_halves", {{"params", train->in_halves}}));
  }
  if (train.has_value() && train->loss_chunks > 1) {
    Pipeline chunk = ChunkPasses(train->loss_chunks);
    passes.insert(passes.end(), chunk.begin(), chunk.end());
  }
  return passes;
}

Pipeline DecomposePasses(bool copyable) {
  return {MakePass("decompose_reduce_scatter", {{"copyable", copyable}})};
}

Pipeline OverHostsPasses(bool always) {
  return {MakePass("decompose_over_hosts", {{"always", always}})};
}

Pipeline WalkPasses(int64_t parts, bool merge_each) {
  return {
      MakePass("walk_keys", {{"parts", parts}, {"merge_each", merge_each}})};
}

Pipeline HeadPasses(int64_t parts) {
  return {MakePass("split_heads", {{"parts", parts}})};
}

Pipeline FusePasses(bool measured_only, const std::string& epilogues) {
  return {MakePass(
      "fuse", {{"measured_only", measured_only}, {"epilogues", epilogues}})};
}

Pipeline StreamPasses(bool ctas) {
  return {MakePass("trim_sm_margin"),
          MakePass("assign_streams", {{"ctas", ctas}})};
}

Pipeline LowerPasses(double memory_gib, bool fuse) {
  Pipeline passes;
  if (fuse) passes.push_back(MakePass("fuse_updates"));
  passes.push_back(MakePass("plan_memory", {{"memory_gib", memory_gib}}));
  return passes;
}

}  // namespace asyra
