#include "ir/plans/plan_sums.h"

namespace asyra {

Box PlanSums::OwnedBox(int op, int owner) const {
  int64_t parts = b_.walk().parts;
  return b_.ChunkOfAll(b_.ValueOf(op), owner * parts, parts);
}

int PlanSums::LandingOf(int op, int rank, int owner, RankSet summands) {
  auto [at, added] = landing_.try_emplace({op, rank, owner, summands}, -1);
  if (added) {
    at->second = b_.AddBuffer(rank, {.value = b_.OperandOf(op),
                                     .box = OwnedBox(op, owner),
                                     .summands = summands});
  }
  return at->second;
}

void PlanSums::SendSummands(int op, int rank, const Box& box, bool computed) {
  if (b_.shape().route == PlanRoute::kRing) return;
  bool levels = b_.shape().route == PlanRoute::kTwoLevels;
  int from = b_.BufferOf(rank, b_.OperandOf(op)), n = b_.ranks();
  for (int k = 1; k < n; ++k) {
    int owner = (rank + k) % n, to = owner;
    if (levels) to = hosts_.RankAt(hosts_.Host(rank), hosts_.Seat(owner));
    Box its = Intersection(box, OwnedBox(op, owner));
    if (to == rank || its.elements() == 0) continue;
    int queue = levels ? PlanHosts::kNearQueue : b_.QueueBetween(rank, to);
    b_.Copy({rank, from, computed}, to,
            LandingOf(op, to, owner, OnlyRank(rank)), its, queue);
  }
}

void PlanSums::AddUp(int level) {
  for (int i = 0; i < b_.num_ops(); ++i) {
    if (!Reduces(b_.KindOf(i)) || b_.walk().level[b_.OperandOf(i)] != level) {
      continue;
    }
    bool gathers = b_.KindOf(i) == CollectiveKind::kAllReduce;
    for (int64_t p = 0; p < b_.walk().parts; ++p) {
      AddUpPart(i, p);
      if (gathers && b_.MovesAtOnce()) moves_.GatherSums(i, p);
    }
    if (gathers && !b_.MovesAtOnce()) moves_.GatherAllSums(i);
  }
}

void PlanSums::AddUpPart(int op, int64_t part) {
  // A ring and pieces have added already.
  if (b_.shape().route == PlanRoute::kRing || b_.shape().sums_in_pieces) return;
  if (b_.shape().route == PlanRoute::kTwoLevels) return SumsOfHosts(op, part);
  int value = b_.ValueOf(op);
  for (int r = 0; r < b_.ranks(); ++r) {
    std::vector<int> buffers;
    for (int s = 0; s < b_.ranks(); ++s) {
      buffers.push_back(s == r ? b_.BufferOf(r, b_.OperandOf(op))
                               : LandingOf(op, r, r, OnlyRank(s)));
    }
    b_.AddSum(r, buffers, b_.BufferOf(r, value), b_.OwnChunk(value, r, part));
  }
}

PlanSums::PieceSum PlanSums::SumOfPiece(int op, int rank, const Box& box,
                                        bool is_own) {
  int sum = SumInPiecesOf(op);
  bool is_ring = b_.shape().route == PlanRoute::kRing;
  if (sum < 0 || (is_ring ? hop_ == 0 : !is_own)) return {};
  if (is_ring) return ring_sum_[{sum, rank}] = RingSum(sum, rank, box);
  return {OthersOf(sum, rank, box), b_.BufferOf(rank, b_.ValueOf(sum))};
}

int PlanSums::SumInPiecesOf(int op) const {
  if (!b_.shape().sums_in_pieces) return -1;
  for (int i = 0; i < b_.num_ops(); ++i) {
    if (Reduces(b_.KindOf(i)) && b_.OperandOf(i) == b_.ValueOf(op)) return i;
  }
  return -1;
}

int PlanSums::OthersOf(int collective, int rank, const Box& box) {
  std::vector<int> buffers;
  for (int s = 0; s < b_.ranks(); ++s) {
    if (s == rank) continue;
    buffers.push_back(LandingOf(collective, rank, rank, OnlyRank(s)));
  }
  if (buffers.size() == 1) return buffers[0];
  RankSet others = AllRanks(b_.ranks()) & ~OnlyRank(rank);
  int sum = LandingOf(collective, rank, rank, others);
  b_.AddSum(rank, buffers, sum, box);
  return sum;
}

// Each host adds up its ranks' summands, then the owner those of the hosts.
void PlanSums::SumsOfHosts(int op, int64_t part) {
  int hosts = hosts_.hosts;
  for (int k = 1; k <= hosts; ++k) {
    for (int r = 0; r < b_.ranks(); ++r) {
      int host = (hosts_.Host(r) + k) % hosts;
      SumInHost(op, part, r, hosts_.RankAt(host, hosts_.Seat(r)));
    }
    b_.Exchange();
  }
  for (int r = 0; hosts > 1 && r < b_.ranks(); ++r) SumOverHosts(op, part, r);
}

void PlanSums::SumInHost(int op, int64_t part, int rank, int owner) {
  int value = b_.OperandOf(op), host = hosts_.Host(rank);
  Box box = b_.OwnChunk(b_.ValueOf(op), owner, part);
  std::vector<int> buffers;
  for (int j = 0; j < hosts_.inner; ++j) {
    int s = hosts_.RankAt(host, j);
    buffers.push_back(s == rank ? b_.BufferOf(rank, value)
                                : LandingOf(op, rank, owner, OnlyRank(s)));
  }
  int host_sum = buffers[0];
  if (hosts_.inner > 1) {
    host_sum = LandingOf(op, rank, owner, hosts_.Members(host));
    if (hosts_.hosts == 1) host_sum = b_.BufferOf(rank, b_.ValueOf(op));
    b_.AddSum(rank, buffers, host_sum, box);
  }
  if (owner == rank) return;
  b_.Copy({rank, host_sum, true}, owner,
          LandingOf(op, owner, owner, hosts_.Members(host)), box,
          PlanHosts::kFarQueue);
}

void PlanSums::SumOverHosts(int op, int64_t part, int rank) {
  int value = b_.ValueOf(op);
  std::vector<int> buffers;
  for (int host = 0; host < hosts_.hosts; ++host) {
    bool own_summand = host == hosts_.Host(rank) && hosts_.inner == 1;
    buffers.push_back(own_summand
                          ? b_.BufferOf(rank, b_.OperandOf(op))
                          : LandingOf(op, rank, rank, hosts_.Members(host)));
  }
  b_.AddSum(rank, buffers, b_.BufferOf(rank, value),
            b_.OwnChunk(value, rank, part));
}

std::vector<int> PlanSums::RingSumsOf(int level) const {
  std::vector<int> ops;
  if (b_.shape().route != PlanRoute::kRing) return ops;
  for (int i = 0; i < b_.num_ops(); ++i) {
    if (Reduces(b_.KindOf(i)) && b_.walk().level[b_.OperandOf(i)] == level) {
      ops.push_back(i);
    }
  }
  return ops;
}

void PlanSums::RingOfSums(
    const std::vector<int>& ops,
    const std::function<void(int rank, int64_t chunk)>& piece) {
  int n = b_.ranks();
  for (int op : ops) came_[op].resize(n);
  for (hop_ = 0; hop_ < n; ++hop_) {
    std::map<int, RingHops> next;
    for (int op : ops) next[op].resize(n);
    for (int64_t p = 0; p < b_.walk().parts; ++p) {
      for (int r = 0; r < n; ++r) {
        int64_t shard = (r + 2 * n - 1 - hop_) % n;
        piece(r, shard * b_.walk().parts + p);
        for (int op : ops) PassOn(op, r, p, &next[op]);
      }
      b_.Exchange();
    }
    came_ = std::move(next);
  }
}

void PlanSums::PassOn(int op, int rank, int64_t part, RingHops* next) {
  int n = b_.ranks(), value = b_.OperandOf(op);
  int64_t shard = (rank + 2 * n - 1 - hop_) % n;
  Box box = b_.OwnChunk(b_.ValueOf(op), static_cast<int>(shard), part);
  int have = b_.BufferOf(rank, value);
  if (hop_ > 0) {
    // Pieces have added what came already.
    PieceSum sum = ring_sum_[{op, rank}];
    if (!b_.shape().sums_in_pieces) {
      sum = RingSum(op, rank, box);
      b_.AddSum(rank, {sum.added, have}, sum.to, box);
    }
    have = sum.to;
    // Only what lands there again waits for it; an exchange by itself.
    Mark ack;
    if (hop_ + 2 < n && !b_.shape().exchanges) {
      ack = b_.Post(rank, PlanBuilder::kComputeQueue, (rank + n - 1) % n, 1,
                    PlanBuilder::kAck);
    }
    (*next)[rank].acks.push_back(ack);
  }
  if (hop_ + 1 == n) return;
  int to = (rank + 1) % n;
  int landing = RingLanding(op, to, hop_, shard, part);
  // Acknowledged by `to` when it went on from the hop before the last.
  if (hop_ >= 2 && !b_.shape().exchanges) {
    b_.Wait(rank, 1, came_[op][to].acks[part]);
  }
  b_.Copy({rank, have, true}, to, landing, box, 1);
  (*next)[to].landings.push_back(landing);
}

PlanSums::PieceSum PlanSums::RingSum(int op, int rank, const Box& box) {
  PieceSum sum;
  for (int buffer : came_[op][rank].landings) {
    if (b_.buffer(rank, buffer).box == box) sum.added = buffer;
  }
  sum.to = b_.BufferOf(rank, b_.ValueOf(op));
  if (hop_ + 1 < b_.ranks()) {
    RankSet summands = b_.buffer(rank, sum.added).summands | OnlyRank(rank);
    sum.to = b_.AddBuffer(
        rank, {.value = b_.OperandOf(op), .box = box, .summands = summands});
  }
  return sum;
}

int PlanSums::RingLanding(int op, int rank, int hop, int64_t shard,
                          int64_t part) {
  RankSet summands = 0;
  for (int k = 0; k <= hop; ++k) {
    summands |= OnlyRank(static_cast<int>((shard + 1 + k) % b_.ranks()));
  }
  PlanBuffer buffer{
      .value = b_.OperandOf(op),
      .box = b_.OwnChunk(b_.ValueOf(op), static_cast<int>(shard), part),
      .summands = summands};
  auto [at, added] = slot_.try_emplace({op, rank, hop % 2, part}, 0);
  if (!added) buffer.offset = at->second;
  int made = b_.AddBuffer(rank, buffer);
  at->second = b_.buffer(rank, made).offset;
  return made;
}

}  // namespace asyra
