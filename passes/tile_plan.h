// Which ops of a local program run tile by tile, and where their values are
// cut: the decisions of pass `tile`, before anything is rewritten.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "passes/tile_place.h"

namespace asyra {

struct TilePlan {
  // By op: the place in its factors along which it is done tile by tile, or
  // none where it is done as a whole.
  std::vector<std::optional<FactorPlace>> ops;
  int tiled_ops = 0;
  // Ops before which tiles have to be joined.
  int seams = 0;
  // What a device brings to or takes from the collectives that are done tile
  // by tile.
  double tiled_bytes = 0;
  // Where the data inputs are cut: the dimension, and blocks of each device's
  // shard.
  int dim = 0;
  int64_t blocks = 1;
  // What the blocks would have to be multiplied by for further collectives to
  // be done tile by tile.
  std::set<int64_t> wanted;

  // More of the communication is cut up, or as much with fewer seams, or more
  // ops.
  bool BetterThan(const TilePlan& other) const;
};

class TilePlanner {
 public:
  // `tiles` is at least 2; `program` must outlive the planner. Error: an op
  // without an axis rule.
  static absl::StatusOr<TilePlanner> Create(const Program& program,
                                            int64_t tiles);

  // Tiles that start at dimension `dim` of the data inputs: of the first that
  // has it, and of those where it is as large. They are cut inside the shards
  // of the first or, where that is better, inside further axes that shard the
  // dimension later.
  // Error: the dimension of that input does not cut into tiles, or no data
  // input has it.
  absl::StatusOr<TilePlan> Plan(int dim) const;

  const AxisRule& rule(size_t op) const { return rules_[op]; }

 private:
  TilePlanner(const Program& program, int64_t tiles)
      : program_(&program), tiles_(tiles) {}

  absl::StatusOr<ValueId> FirstInput(int dim) const;
  TilePlan PlanFrom(ValueId first, int dim, int64_t blocks) const;
  std::optional<FactorPlace> Choose(size_t op,
                                    absl::Span<const FactorPlace> found,
                                    std::set<int64_t>* wanted) const;
  bool CanTile(size_t op, const FactorPlace& at,
               std::set<int64_t>* wanted) const;
  bool TypesAgree(size_t op, const FactorPlace& at) const;
  void JoinOutputsEarly(TilePlan* plan) const;
  bool FollowsCollective(const TilePlan& plan, const DefUse& uses,
                         ValueId value) const;
  double PayloadBytes(const Op& op) const;
  int64_t LocalBytes(ValueId value) const;

  const Program* program_;
  int64_t tiles_;
  std::vector<AxisRule> rules_;  // by op
};

// The type of a whole value as that of one of `tiles` tiles.
Type TileType(Type type, const TilePlace& place, int64_t tiles);

}  // namespace asyra
