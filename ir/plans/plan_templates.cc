#include "ir/plans/plan_templates.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/plans/plan_builder.h"
#include "ir/plans/plan_issue.h"
#include "ir/plans/plan_moves.h"
#include "ir/plans/plan_order.h"
#include "ir/plans/plan_sums.h"
#include "ir/plans/plan_walk.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// The chunks that ranks compute, and in which order.
class ChunkOrder {
 public:
  // Chunks that a rank computes at once.
  struct Run {
    int64_t first = 0, count = 0;
  };

  // Refers to all of them.
  ChunkOrder(const GroupBody& group, const PlanShape& shape,
             const PlanWalk& walk)
      : group_(group), shape_(shape), walk_(walk) {}

  int levels() const { return *absl::c_max_element(walk_.level) + 1; }

  // Returns the most chunks of one rank in one level.
  int64_t MostChunks() const {
    size_t most = 0;
    for (int level = 0; level < levels(); ++level) {
      for (int r = 0; r < group_.ranks; ++r) {
        most = std::max(most, ChunksOf(r, level).size());
      }
    }
    return static_cast<int64_t>(most);
  }

  std::vector<Run> RunsOf(int rank, int level) const {
    std::vector<int64_t> chunks = ChunksOf(rank, level);
    std::vector<int64_t> groups = shape_.groups;
    int64_t covered = absl::c_accumulate(groups, int64_t{0});
    if (covered != static_cast<int64_t>(chunks.size())) {
      groups.assign(chunks.size(), 1);
    }
    std::vector<Run> runs;
    size_t at = 0;
    for (int64_t group : groups) {
      for (int64_t k = 0; k < group; ++k, ++at) {
        if (k > 0 && IsOneRun(rank, chunks[at - 1], chunks[at])) {
          ++runs.back().count;
        } else {
          runs.push_back({chunks[at], 1});
        }
      }
    }
    return runs;
  }

  // Returns whether the chunk is of the rank's own shard.
  bool IsOwn(int rank, int64_t chunk) const {
    return chunk / walk_.parts == rank;
  }

  // Errors of MakePlan.
  absl::Status Check() const {
    for (int64_t group : shape_.groups) {
      if (group < 1) return Invalid("a group has {} chunks", group);
    }
    int64_t covered = absl::c_accumulate(shape_.groups, int64_t{0});
    int64_t most = MostChunks();
    if (covered > 0 && covered != most) {
      return Invalid("the groups cover {} chunks, a rank computes {}", covered,
                     most);
    }
    if (shape_.copy_queues < 1) {
      return Invalid("copy_queues is {}, there must be one",
                     shape_.copy_queues);
    }
    ASYRA_RETURN_IF_ERROR(CheckRoute());
    return CheckSumsInPieces();
  }

 private:
  std::vector<int64_t> ChunksOf(int rank, int level) const {
    int n = group_.ranks;
    std::vector<int64_t> chunks;
    for (int k = 0; k < n; ++k) {
      int64_t shard = k;
      if (shape_.order == PlanOrder::kOwnFirst) shard = (rank + k) % n;
      if (shape_.order == PlanOrder::kOwnLast) shard = (rank + 1 + k) % n;
      for (int64_t p = 0; p < walk_.parts; ++p) {
        int64_t chunk = shard * walk_.parts + p;
        if (HasPiece(rank, level, chunk)) chunks.push_back(chunk);
      }
    }
    return chunks;
  }

  // Returns whether two chunks that follow in a group are one piece. Those of
  // the rank's own shard that add what came are not of one with others.
  bool IsOneRun(int rank, int64_t chunk, int64_t next) const {
    if (next != chunk + 1) return false;
    return !shape_.sums_in_pieces || IsOwn(rank, chunk) == IsOwn(rank, next);
  }

  bool HasPiece(int rank, int level, int64_t chunk) const {
    const Body& body = group_.body;
    for (size_t i = 0; i < body.ops.size(); ++i) {
      int value = body.num_operands + static_cast<int>(i);
      if (body.ops[i].def->collective != CollectiveKind::kNone ||
          walk_.level[value] != level) {
        continue;
      }
      if (ChunkBox(group_, walk_, value, rank, chunk, 1).elements() > 0) {
        return true;
      }
    }
    return false;
  }

  absl::Status CheckRoute() const {
    if (shape_.exchanges && shape_.route == PlanRoute::kPull) {
      return Invalid("messages of a library are sent, not pulled");
    }
    bool levels = shape_.route == PlanRoute::kTwoLevels;
    if (levels && (shape_.inner < 1 || group_.ranks % shape_.inner != 0)) {
      return Invalid("{} ranks are not hosts of {}", group_.ranks,
                     shape_.inner);
    }
    if (!levels && shape_.route != PlanRoute::kRing) return absl::OkStatus();
    for (const BodyOp& op : group_.body.ops) {
      if (op.def->collective == CollectiveKind::kAllToAll) {
        return Invalid("{}: an exchange goes direct or is pulled",
                       op.def->name);
      }
      if (!levels && Reduces(op.def->collective) && !shape_.groups.empty()) {
        return Invalid("{}: a ring that adds has no groups", op.def->name);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSumsInPieces() const {
    if (!shape_.sums_in_pieces) return absl::OkStatus();
    if (shape_.route == PlanRoute::kTwoLevels ||
        shape_.order != PlanOrder::kOwnLast) {
      return Invalid(
          "sums_in_pieces: it goes direct, is pulled or goes in a ring, own "
          "shards last");
    }
    bool any = false;
    for (const BodyOp& op : group_.body.ops) {
      if (!Reduces(op.def->collective)) continue;
      any = true;
      ASYRA_RETURN_IF_ERROR(CheckSumOf(op.operands[0]));
    }
    if (any) return absl::OkStatus();
    return Invalid("sums_in_pieces: nothing is added up");
  }

  // Checks a value that pieces add to.
  absl::Status CheckSumOf(int value) const {
    const Body& body = group_.body;
    int made_by = value - body.num_operands;
    if (made_by < 0 || body.ops[made_by].def->fusable != Fusable::kMatmul) {
      return Invalid("sums_in_pieces: %{} is no result of a matmul", value);
    }
    int64_t readers = absl::c_count(body.results, value);
    for (const BodyOp& op : body.ops) {
      readers += absl::c_count(op.operands, value);
    }
    if (readers == 1) return absl::OkStatus();
    return Invalid("sums_in_pieces: %{} is read {} times, not only to be added",
                   value, readers);
  }

  const GroupBody& group_;
  const PlanShape& shape_;
  const PlanWalk& walk_;
};

// Level by level: the pieces, and the collectives that read what they make.
class PlanMaker {
 public:
  PlanMaker(const GroupBody& group, const PlanShape& shape,
            const PlanWalk& walk)
      : order_(group, shape, walk),
        b_(group, shape, walk),
        moves_(b_),
        sums_(b_, moves_) {}

  ChunkPlan Make() {
    for (int k = 0; k < b_.body().num_operands; ++k) SendOperand(k);
    for (int level = 0; level < order_.levels(); ++level) {
      std::vector<int> ring = sums_.RingSumsOf(level);
      if (!ring.empty()) {
        sums_.RingOfSums(ring, [&](int rank, int64_t chunk) {
          PiecesOf(level, rank, {chunk, 1});
        });
      } else {
        Pieces(level);
      }
      MoveMade(level);
      sums_.AddUp(level);
    }
    return b_.Finish();
  }

 private:
  using Run = ChunkOrder::Run;

  void SendOperand(int k) {
    for (int i = 0; i < b_.num_ops(); ++i) {
      if (!b_.IsCollective(i) || b_.OperandOf(i) != k) continue;
      if (!Reduces(b_.KindOf(i))) {
        moves_.SendAll(i, false);
        continue;
      }
      for (int r = 0; r < b_.ranks(); ++r) {
        sums_.SendSummands(i, r, b_.BoxOf(k, r), false);
      }
    }
  }

  void Pieces(int level) {
    std::vector<std::vector<Run>> runs;
    size_t most = 0;
    for (int r = 0; r < b_.ranks(); ++r) {
      runs.push_back(order_.RunsOf(r, level));
      most = std::max(most, runs.back().size());
    }
    auto pieces = [&](auto is_in) {
      for (size_t k = 0; k < most; ++k) {
        for (int r = 0; r < b_.ranks(); ++r) {
          if (k >= runs[r].size() || !is_in(r, runs[r][k])) continue;
          PiecesOf(level, r, runs[r][k]);
        }
        b_.Exchange();
      }
    };
    if (b_.shape().sums_in_pieces) {
      // Pieces of the rank's own shard come last: what they add has been sent
      // before.
      auto is_own = [&](int r, Run run) { return order_.IsOwn(r, run.first); };
      pieces([&](int r, Run run) { return !is_own(r, run); });
      pieces(is_own);
    } else {
      pieces([](int, Run) { return true; });
    }
  }

  // Moves what pieces of a level have made, but for sums: over rings and levels
  // it goes when all of it is available.
  void MoveMade(int level) {
    for (int i = 0; i < b_.num_ops(); ++i) {
      if (!MovesAfter(i, level)) continue;
      if (!moves_.MovesAtOnce(i)) {
        moves_.SendAll(i, true);
      } else {
        for (int r = 0; r < b_.ranks(); ++r) moves_.SendOwn(i, r);
      }
    }
  }

  // Returns whether collective `op` moves a value that pieces of `level` make.
  bool MovesAfter(int op, int level) const {
    if (!b_.IsCollective(op) || Reduces(b_.KindOf(op))) return false;
    int from = b_.OperandOf(op);
    return b_.IsComputed(from) && b_.walk().level[from] == level;
  }

  void PiecesOf(int level, int rank, Run run) {
    for (int i = 0; i < b_.num_ops(); ++i) {
      int value = b_.ValueOf(i);
      if (b_.IsCollective(i) || b_.walk().level[value] != level) continue;
      Box box = b_.ChunkBox(value, rank, run.first, run.count);
      if (box.elements() == 0) continue;
      std::vector<PlanRegion> reads;
      for (int read : b_.body().ops[i].operands) {
        reads.push_back(moves_.Read(
            rank, read, b_.ChunkBox(read, rank, run.first, run.count)));
      }
      PlanSums::PieceSum sum =
          sums_.SumOfPiece(i, rank, box, order_.IsOwn(rank, run.first));
      if (sum.to >= 0) {
        b_.AddPieceAndSum(i, rank, std::move(reads), sum.added, sum.to, box);
        continue;
      }
      b_.AddPiece(i, rank, std::move(reads), box);
      AfterPiece(value, rank, box);
    }
  }

  // The collectives that read a piece's result move it at once.
  void AfterPiece(int value, int rank, const Box& box) {
    for (int i = 0; i < b_.num_ops(); ++i) {
      if (!b_.IsCollective(i) || b_.OperandOf(i) != value) continue;
      if (Reduces(b_.KindOf(i))) {
        sums_.SendSummands(i, rank, box, true);
      } else if (moves_.MovesAtOnce(i)) {
        moves_.SendComputed(i, rank, box);
      }
    }
  }

  ChunkOrder order_;
  PlanBuilder b_;
  PlanMoves moves_;
  PlanSums sums_;
};

}  // namespace

absl::StatusOr<int64_t> ChunksOfARank(const GroupBody& body,
                                      const PlanShape& shape) {
  ASYRA_ASSIGN_OR_RETURN(PlanWalk walk, FindWalk(body, shape.parts));
  return ChunkOrder(body, shape, walk).MostChunks();
}

absl::Status CheckPlanShape(const GroupBody& body, const PlanShape& shape) {
  ASYRA_ASSIGN_OR_RETURN(PlanWalk walk, FindWalk(body, shape.parts));
  return ChunkOrder(body, shape, walk).Check();
}

absl::StatusOr<ChunkPlan> MakePlan(const GroupBody& body,
                                   const PlanShape& shape) {
  ASYRA_ASSIGN_OR_RETURN(PlanWalk walk, FindWalk(body, shape.parts));
  ASYRA_RETURN_IF_ERROR(ChunkOrder(body, shape, walk).Check());
  ChunkPlan plan = PlanMaker(body, shape, walk).Make();
  OrderAlike(&plan);
  OrderOfIssue(&plan);
  return plan;
}

}  // namespace asyra
