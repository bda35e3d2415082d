// Makes the chunk plan of a body from a few choices.
//
// The body is walked along one factor, which every op of it must have in
// parallel: the one that an all_gather makes whole, a reduce_scatter scatters,
// or an all_to_all scatters or gathers. Ops that do not read each other's
// results have one each: chunk k of all of them is computed together. A factor
// has a shard for each rank, and each shard has `parts` chunks. Chunks are
// computed in an order that may differ by rank, so that what is there is
// computed while the others come, or what others wait for before what nobody
// else wants.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/overlap.h"
#include "ir/plans/chunk_plan.h"

namespace asyra {

enum class PlanOrder : uint8_t {
  kOwnFirst,  // rank r: shard r, then r + 1, ...: before a gather
  kOwnLast,   // r + 1, ..., and r at the end: after it, a scatter
  kSame,      // 0, 1, ... on all ranks
};
enum class PlanRoute : uint8_t {
  kDirect,     // the rank that has a chunk writes it to each that needs it
  kPull,       // each rank reads what it needs
  kRing,       // to the neighbour, which passes it on, or adds to it
  kTwoLevels,  // once to each other host, and from there inside it
};

struct PlanShape {
  PlanOrder order = PlanOrder::kOwnFirst;
  PlanRoute route = PlanRoute::kDirect;
  int64_t parts = 1;  // chunks of a shard
  // Consecutive chunks of a rank's order that are computed at once: how many
  // in each group. Empty: each alone. A group is cut where the order passes
  // from the last chunk to the first.
  std::vector<int64_t> groups = {};
  int64_t inner = 0;  // of two levels: ranks of a host, which divide the group
  // The pieces of a rank's own shard add what others have computed of it to
  // their result, instead of a step behind them: pieces of matmuls, which then
  // run last. The others are added up before, where they are several; in a ring
  // each rank's piece adds what came to it.
  bool sums_in_pieces = false;
  // Copy queues of a rank, at most. On one, what is needed first has the link
  // for itself.
  int64_t copy_queues = 1;
  // Chunks go as messages of a library (ir/plans/plan_exchanges.h) instead of
  // copies, on any route but kPull: all that ranks compute at a time, and all
  // of one hop of a ring, in one exchange.
  bool exchanges = false;

  friend bool operator==(const PlanShape&, const PlanShape&) = default;
};

// Returns how many chunks a rank computes one after the other under this shape:
// what the groups must cover.
absl::StatusOr<int64_t> ChunksOfARank(const GroupBody& body,
                                      const PlanShape& shape);

// Checks whether MakePlan makes a plan of this shape.
absl::Status CheckPlanShape(const GroupBody& body, const PlanShape& shape);

// Errors: no factor can be walked, with the reason for the first candidate; a
// factor that does not divide into shards and parts; groups that do not cover
// the chunks; a route that does not fit the collectives; sums in pieces where
// no matmul makes them, or others read its result.
absl::StatusOr<ChunkPlan> MakePlan(const GroupBody& body,
                                   const PlanShape& shape);

}  // namespace asyra
