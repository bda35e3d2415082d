// The default pipelines as text: the table of contents of the compiler. How a
// local program is scheduled is searched for (schedule.h).
#pragma once

#include <string_view>

namespace asyra {

// Imported graph to fused meanings; stage global. Each raise needs what the
// one before it has cleaned up: norms leave casts dead, activations become
// operands of rotary's products, and attention absorbs transposes that rotary
// has moved to its layout. Projections are split when rotary no longer reads
// parts of heads.
inline constexpr std::string_view kRaisePipeline =
    "canonicalize, raise_norm, raise_activation, raise_moe, raise_rotary, "
    "split_projections, raise_attention, canonicalize";

// One logical device to what each device runs; global to local. Rows of experts
// are merged as the mesh allows.
inline constexpr std::string_view kShardPipeline =
    "merge_expert_rows, pad_dims, plan_sharding, partition";

// Local: for sums that are scheduled apart from the collectives before them.
inline constexpr std::string_view kSumsPipeline = "decompose_reduce_scatter";

// Before a local program is scheduled, so that all drafts are of what will run.
inline constexpr std::string_view kFusePipeline = "fuse";

// Scheduled: what every schedule gets before they are compared.
inline constexpr std::string_view kStreamsPipeline = "assign_streams";

// Scheduled to allocated: what follows once the schedule is chosen.
inline constexpr std::string_view kLowerPipeline = "plan_memory";

}  // namespace asyra
