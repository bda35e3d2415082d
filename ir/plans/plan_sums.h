// The collectives of a chunk plan that add: each shard of the sum is added up
// by the rank that keeps it, and of an all_reduce sent back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "ir/plans/plan_builder.h"
#include "ir/plans/plan_moves.h"

namespace asyra {

class PlanSums {
 public:
  // Both outlive it.
  PlanSums(PlanBuilder& builder, PlanMoves& moves)
      : b_(builder), moves_(moves), hosts_(builder) {}

  // A piece's parts, each to the rank that adds it up: that which keeps it, or
  // over two levels its neighbour on this host.
  void SendSummands(int op, int rank, const Box& box, bool computed);
  // Adds up what collectives move of values of `level`, but for what pieces
  // have added.
  void AddUp(int level);

  // Buffers of a rank: what a piece adds to its result, and where it writes the
  // sum; none: it only computes.
  struct PieceSum {
    int added = -1, to = -1;
  };
  // Returns what a piece of `op` adds in this box, of the rank's own shard or
  // another: if pieces add up, those of its own shard add what came from
  // others, and in a ring all add what has come to them.
  PieceSum SumOfPiece(int op, int rank, const Box& box, bool is_own);

  // The collectives that add up what pieces of `level` make, if they do it in a
  // ring.
  std::vector<int> RingSumsOf(int level) const;
  // Their pieces, `piece` being called for each rank and chunk, and their sums.
  // Shard s begins at rank s + 1; each rank adds its summand and passes the sum
  // on. What comes lands in two places by turns: before the third comes, the
  // receiver has acknowledged that it has read the first.
  void RingOfSums(const std::vector<int>& ops,
                  const std::function<void(int rank, int64_t chunk)>& piece);

 private:
  using Mark = PlanBuilder::Mark;
  // Arrivals at a rank in one hop, and its acknowledgements in it, by part.
  struct RingHop {
    std::vector<int> landings;
    std::vector<Mark> acks;
  };
  // The hops of one collective, by rank.
  using RingHops = std::vector<RingHop>;

  // The collective that adds up what `op` makes, if pieces do that; -1.
  int SumInPiecesOf(int op) const;
  // Returns the buffer where a rank has what a piece of its own shard adds, in
  // this box: the summand of the other rank, or the sum of all others'.
  int OthersOf(int collective, int rank, const Box& box);

  // The chunks whose sum rank `owner` computes, of the operand of `op`.
  Box OwnedBox(int op, int owner) const;
  // Returns the buffer where `rank` has the sum of `summands` of what `owner`
  // sums up.
  int LandingOf(int op, int rank, int owner, RankSet summands);
  void AddUpPart(int op, int64_t part);
  void SumsOfHosts(int op, int64_t part);
  void SumInHost(int op, int64_t part, int rank, int owner);
  void SumOverHosts(int op, int64_t part, int rank);
  // Returns what a rank adds its summand to in this hop, and where.
  PieceSum RingSum(int op, int rank, const Box& box);
  // Passes on what the rank has of a part, in `next`.
  void PassOn(int op, int rank, int64_t part, RingHops* next);
  int RingLanding(int op, int rank, int hop, int64_t shard, int64_t part);

  PlanBuilder& b_;
  PlanMoves& moves_;
  PlanHosts hosts_;
  // The state of the ring: how often sums have been passed on, what came
  // before, by collective, and where sums are now, by collective and rank.
  int hop_ = 0;
  std::map<int, RingHops> came_;
  std::map<std::pair<int, int>, PieceSum> ring_sum_;
  std::map<std::tuple<int, int, int, RankSet>, int> landing_;
  // Bytes into the workspace, by op, rank, turn and part.
  std::map<std::tuple<int, int, int, int64_t>, int64_t> slot_;
};

}  // namespace asyra
