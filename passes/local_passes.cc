#include "passes/fuse/fuse.h"
#include "passes/fuse/fusion_clusters.h"
#include "passes/pass_records.h"
#include "passes/schedule/memory/chunk_loss.h"
#include "passes/schedule/memory/recompute.h"
#include "passes/shard/decompose_over_hosts.h"
#include "passes/shard/decompose_reduce_scatter.h"
#include "passes/shard/exchange_rows.h"
#include "passes/shard/pack_expert_rows.h"
#include "passes/shard/split_heads.h"
#include "passes/shard/walk_keys.h"
#include "passes/shard/weigh_packed_rows.h"
#include "passes/train/defer_reductions.h"
#include "passes/train/join_squares.h"
#include "passes/train/store_in_halves.h"

namespace asyra {

std::vector<PassRecord> LocalPasses() {
  return {
      {.name = "defer_reductions",
       .summary =
           "sums gradients over batches before devices, so that only the "
           "last batch exchanges them",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"sums", AttrKind::kString,
                    "the states of another program, NAME@AXIS,...;NAME: over "
                    "which axes each is still to be summed; empty: as it pays",
                    std::string()}},
       .fn = DeferReductions},
      {.name = "store_in_halves",
       .summary = "f32 params that are read as bf16 are stored so that no cast "
                  "is needed",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"params", AttrKind::kString,
                    "those of another program, NAME;NAME; empty: those that "
                    "this one updates",
                    std::string()}},
       .fn = StoreInHalves},
      {.name = "join_squares",
       .summary = "sums squares of several gradients in one kernel, for the "
                  "norm of all",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .fn = JoinSquares},
      {.name = "exchange_rows",
       .summary =
           "sends the rows that tokens look up, and those that a table's "
           "gradient sums, instead of the table, where that pays",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .fn = ExchangeRows},
      {.name = "pack_expert_rows",
       .summary = "experts compute the rows that tokens chose and no free "
                  "slots, where nothing is dropped",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"groups", AttrKind::kInt,
                    "sorted groups of a device's tokens; 0: as many as pay",
                    int64_t{0}}},
       .fn = PackExpertRows},
      {.name = "weigh_packed_rows",
       .summary = "weights of choices, and their gradients, without a row for "
                  "every choice in the order of tokens",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .fn = WeighPackedRows},
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
      {.name = "split_heads",
       .summary = "attention in parts of its heads, each exchanged while "
                  "another is computed",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"parts", AttrKind::kInt, "of the heads of a device",
                    int64_t{2}}},
       .fn = SplitHeads},
      {.name = "walk_keys",
       .summary = "attention computes with the keys that a device has while "
                  "those of the others come, instead of gathering them first",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"parts", AttrKind::kInt,
                    "of the keys of a sequence; 0: one a device", int64_t{0}},
                   {"merge_each", AttrKind::kBool,
                    "each part is merged when it is computed, which takes the "
                    "least memory",
                    false}},
       .fn = WalkKeys},
      {.name = "chunk_loss",
       .summary = "computes the loss and its gradient in chunks of tokens, so "
                  "that the logits of all are never there at once",
       .from_stage = Stage::kLocal,
       .to_stage = Stage::kLocal,
       .options = {{"chunks", AttrKind::kInt, "how many", int64_t{4}}},
       .fn = ChunkLoss},
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
  };
}

}  // namespace asyra
