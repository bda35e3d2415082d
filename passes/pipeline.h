// The default pipelines: the passes of each part of the compiler, in order.
// passes/compile.h has the order of the parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "passes/pass_manager.h"

namespace asyra {

// The meanings that an imported graph gets.
struct RaiseOptions {
  int64_t expert_capacity_percent = 0;  // as the option of raise_moe
  std::string dtype;                    // as that of set_dtype; empty: as it is
  bool pads_right = false;              // padding masks become lengths
  int64_t documents = 0;  // the option of mask_documents; 0: it does not run
  std::string trained;    // as the option of raise_rotary
};

// Returns the passes from an imported graph to fused meanings; stage global.
Pipeline RaisePasses(const RaiseOptions& options = {});

// The options of training: the program that a model becomes, and its optimizer.
struct TrainOptions {
  enum class What {
    kStep,        // loss, gradients and updates
    kAccumulate,  // loss and gradients, added to those of other batches
    kGradients,   // loss and gradients, as outputs
    kEvaluate,    // loss
    kForward,     // the model's own outputs, of the params
  };
  What what = What::kStep;
  std::string output;                // attach_loss
  bool next_token = false;           // attach_loss
  double balance = 0, router_z = 0;  // balance_experts
  std::string tie, untie;            // tie_weights
  std::string freeze, train;         // mark_params
  // attach_updates
  std::string optimizer = "adamw", decay_of = "matrices";
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, momentum = 0;
  double decay = 0.1, clip = 1;
  // Batches of a step: with more than one, kStep is the last of them.
  int64_t accumulate = 1;
  // The option of defer_reductions for kAccumulate, so that it agrees with the
  // step.
  std::string sums;
  // True: params that are read as bf16 may be stored in halves
  // (store_in_halves). `in_halves`: of other programs than the step, the params
  // that are.
  bool halves = true;
  std::string in_halves;
  std::string zero = "auto";  // plan_sharding
  // The values that backward computes again: "auto", so that the step fits;
  // "none"; "all"; or the option of recompute.
  std::string recompute = "auto";
  // Chunks of tokens in which the loss and its gradient run: 1, all tokens at
  // once; 0, as few as let the step fit.
  int64_t loss_chunks = 0;
};

// Returns the passes from a raised model to its training program, of stage
// global, with `padding` where weights that are stored twice have become one,
// so that both uses have the same, and `stripes` where the loss, which reads
// logits of any order, and the parameters are known.
Pipeline TrainPasses(const TrainOptions& options, const Pipeline& padding = {},
                     const Pipeline& stripes = {});

// The sharding of a global program, as the options of plan_sharding say it.
struct ShardingOptions {
  std::string pins;     // as ReadPins takes them (passes/shard/pins.h)
  std::string experts;  // axes that shard experts beside ep: "dp,sp"
  std::string tp_strategy = "auto", ep_strategy = "all_to_all";
  // True: only what follows from the pins (propagate_sharding), without costs.
  bool propagate = false;
  std::string padding;  // as the sizes of pad_dims; empty: where it pays
  std::string stripes = "auto";  // as `when` of stripe_sequence
  double memory_gib = -1;        // plan_sharding, of a training step
};

// Returns the passes from one logical device to what each device runs; global
// to local. With `train` the model becomes its training program on the way,
// behind what only forward passes know.
Pipeline ShardPasses(const ShardingOptions& options = {},
                     const std::optional<TrainOptions>& train = std::nullopt);

// Returns the passes on a local program that run the loss in so many chunks.
Pipeline ChunkPasses(int64_t chunks);

// Returns the passes on a local program by which reduce_scatters become an
// all_to_all and a reduction on the device; with `copyable` only where copy
// engines can carry the all_to_all.
Pipeline DecomposePasses(bool copyable);

// Returns the passes on a local program by which collectives over hosts become
// collectives inside and across them; with `always` also where half of their
// time is latency.
Pipeline OverHostsPasses(bool always);

// Returns the passes on a local program by which attention takes the keys of a
// sharded sequence in so many parts; 0: one a device.
Pipeline WalkPasses(int64_t parts, bool merge_each = false);

// Returns the passes on a local program by which attention is in so many parts
// of its heads.
Pipeline HeadPasses(int64_t parts);

// Returns the passes on a local program that fuse before scheduling, so that
// all candidates have the kernels that will run. `epilogues` is the option of
// fuse.
Pipeline FusePasses(bool measured_only = false,
                    const std::string& epilogues = "measured");

// Returns the passes that run on every schedule before schedules are compared.
// `ctas`: whether collectives may get other numbers of CTAs than the library's.
Pipeline StreamPasses(bool ctas = true);

// Returns the passes from scheduled to allocated. `memory_gib` as CapacityBytes
// takes it; `fuse`: the updates of parameters in few kernels.
Pipeline LowerPasses(double memory_gib = -1, bool fuse = true);

}  // namespace asyra
