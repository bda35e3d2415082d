// The collectives of a chunk plan that move a value as it is: gathers and
// exchanges, and the second half of an all_reduce.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "ir/plans/plan_builder.h"

namespace asyra {

class PlanMoves {
 public:
  // `builder` outlives it.
  explicit PlanMoves(PlanBuilder& builder) : b_(builder), hosts_(builder) {}

  // Returns whether collective `op` moves a box as soon as it is computed.
  bool MovesAtOnce(int op) const;
  // Returns whether the value is the result of an all_gather.
  bool IsGathered(int value) const;

  // Sends all of the operand of `op`, chunk by chunk; `computed` by now, or
  // available from the beginning.
  void SendAll(int op, bool computed);
  // Sends what a rank has computed in a box of the operand of `op` to all.
  void SendComputed(int op, int rank, const Box& box);
  // Sends the rank's own part of a gathered value that the body gives.
  void SendOwn(int op, int rank);
  // Returns the region of a rank's operand of a piece, once it is available.
  PlanRegion Read(int rank, int value, const Box& box);

  // Sends the sums that ranks have of their own shards to all others; `part` of
  // them, or all by a ring or over two levels.
  void GatherSums(int op, int64_t part);
  void GatherAllSums(int op);

 private:
  using Source = PlanBuilder::Source;

  void Send(int op, int from, int to, const Box& box, bool computed);
  int OwnPart(int rank, int value, const Box& box) const;
  void CopyOwnPart(int rank, int value);
  bool NeedsOwnPart(int rank, int value, const Box& box) const;
  // Brings each rank's own chunks from its source to all other ranks' `value`,
  // by a ring or over two levels.
  void Gather(const std::vector<Source>& sources, int value);
  void RingGather(const std::vector<Source>& sources, int value);
  void TwoLevelGather(const std::vector<Source>& sources, int value);
  // Sends to the ranks of the source's host and to one of each other host.
  void SendToHosts(const Source& source, int value, const Box& box);
  // Passes on what came from other hosts, inside this one.
  void PassOnInHost(int rank, int value, int64_t part, int distance);

  PlanBuilder& b_;
  PlanHosts hosts_;
  std::set<std::pair<int, int>> copied_;  // rank and value
};

}  // namespace asyra
