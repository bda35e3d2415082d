#include "passes/pipeline.h"

namespace asyra {

// Each raise needs what the one before it has cleaned up: norms leave casts
// dead, activations become operands of rotary's multiplications, and attention
// absorbs transposes that rotary has moved to its layout. Projections are split
// when rotary no longer reads parts of heads.
Pipeline RaisePasses(int64_t expert_capacity_percent) {
  return {
      MakePass("canonicalize"),
      MakePass("raise_norm"),
      MakePass("raise_activation"),
      MakePass("raise_moe", {{"capacity_percent", expert_capacity_percent}}),
      MakePass("raise_rotary"),
      MakePass("split_projections"),
      MakePass("raise_attention"),
      MakePass("canonicalize"),
  };
}

// Rows of experts are merged as the mesh allows.
Pipeline ShardPasses(const ShardingOptions& options) {
  if (options.propagate) {
    return {MakePass("propagate_sharding", {{"seeds", options.pins}}),
            MakePass("partition")};
  }
  PassOptions plan = {{"pins", options.pins},
                      {"experts", options.experts},
                      {"tp_strategy", options.tp_strategy},
                      {"ep_strategy", options.ep_strategy}};
  return {MakePass("merge_expert_rows"), MakePass("pad_dims", plan),
          MakePass("plan_sharding", plan), MakePass("partition")};
}

Pipeline DecomposePasses(bool copyable) {
  return {MakePass("decompose_reduce_scatter", {{"copyable", copyable}})};
}

Pipeline FusePasses(bool measured_only, const std::string& epilogues) {
  return {MakePass(
      "fuse", {{"measured_only", measured_only}, {"epilogues", epilogues}})};
}

Pipeline StreamPasses(bool ctas) {
  return {MakePass("trim_sm_margin"),
          MakePass("assign_streams", {{"ctas", ctas}})};
}

Pipeline LowerPasses() { return {MakePass("plan_memory")}; }

}  // namespace asyra
