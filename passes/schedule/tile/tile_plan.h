// The ops of a local program that run tile by tile, and the places where their
// values are cut: the decisions of pass `tile`, before anything is rewritten.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/dim_names.h"
#include "ir/program.h"
#include "ir/tile_place.h"
#include "passes/analysis/dim_labels.h"

namespace asyra {

struct TilePlan {
  // By op: the place in its factors along which it runs tile by tile, or none
  // if it runs as a whole.
  std::vector<std::optional<FactorPlace>> ops;
  int tiled_ops = 0;
  // Ops before which tiles have to be joined.
  int join_points = 0;
  // Payload of a device in the collectives that run tile by tile.
  double tiled_bytes = 0;
  // The cut of the first tiled data input: the dimension, and blocks of each
  // device's shard.
  ValueId input = kNoValue;
  int dim = 0;
  int64_t blocks = 1;
  // The factor on the blocks with which further collectives would run tile by
  // tile.
  std::set<int64_t> wanted;

  // Returns whether this tiles more of the communication, or as much with fewer
  // join points, or with more ops.
  bool BetterThan(const TilePlan& other) const;
};

class TilePlanner {
 public:
  // `tiles` is at least 2; `program` must outlive the planner. Error: an op
  // without an axis rule.
  static absl::StatusOr<TilePlanner> Create(const Program& program,
                                            int64_t tiles,
                                            const DimNames& names = {});

  // Restricts the ops that may run tile by tile to these, by number.
  void Restrict(std::vector<bool> ops) { only_ = std::move(ops); }

  // Tiles that start at the dimensions of data inputs that are the batch, or
  // tokens (dim_labels.h): at the first that can be tiled, and at those of
  // other inputs of the same size. They are cut inside the shards of the first
  // or, if that is better, inside further axes that shard the dimension later.
  // Error: there is none, or none that can be tiled; it names those considered.
  absl::StatusOr<TilePlan> Plan(DimLabel label) const;
  // Returns the same for dimension `dim` of the data inputs that have it.
  absl::StatusOr<TilePlan> Plan(int dim) const;

  const AxisRule& rule(size_t op) const { return labels_.rules[op]; }
  // `dim 1 "seq" of input %ids`.
  std::string InputDimText(ValueId input, int dim) const;

 private:
  // A dimension of a data input.
  struct Start {
    ValueId input;
    int dim;
  };

  TilePlanner(const Program& program, int64_t tiles, DimLabels labels)
      : program_(&program), tiles_(tiles), labels_(std::move(labels)) {}

  absl::StatusOr<TilePlan> PlanAt(const std::vector<Start>& starts) const;
  absl::StatusOr<Start> FirstThatCuts(const std::vector<Start>& starts) const;
  TilePlan PlanFrom(const Start& first, const std::vector<Start>& starts,
                    int64_t blocks) const;
  std::string DimsConsidered() const;
  int64_t OnDevice(const Start& start) const;
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

  const Program* program_;
  int64_t tiles_;
  DimLabels labels_;
  std::vector<bool> only_;  // by op; empty: all
};

// Returns the type of a whole value as that of one of `tiles` tiles.
Type TileType(Type type, const TilePlace& place, int64_t tiles);

}  // namespace asyra
